"""What a drill finds."""

from __future__ import annotations

from grpo_core.errors import EntenteError


class BrokenPromiseError(EntenteError):
    """The training did not get over a fault, or lost something; one line says what was promised and what came."""

    exit_code = 1
