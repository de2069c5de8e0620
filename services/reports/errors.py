"""What goes wrong while a page is made."""

from __future__ import annotations

from grpo_core.errors import EntenteError


class ReportError(EntenteError):
    """A report or viewer cannot be made; the message is one line with the file and the reason."""
