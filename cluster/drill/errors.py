"""What a drill finds."""

from __future__ import annotations


class BrokenPromiseError(Exception):
    """The training did not get over a fault, or lost something; one line says what was promised and what came."""
