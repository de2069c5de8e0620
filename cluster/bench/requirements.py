"""What a benchmark needs and this machine lacks."""

from __future__ import annotations


class MissingRequirementError(Exception):
    """A benchmark cannot run here; the message is one line that says what to install."""
