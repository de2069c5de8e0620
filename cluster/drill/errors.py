"""The error of a drill."""

from __future__ import annotations

from grpo_core.errors import EntenteError


class DrillFailedError(EntenteError):
    """The training did not recover from a fault, or lost something; one line has the expected and the actual."""

    exit_code = 1
