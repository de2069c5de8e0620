"""The base class of every error that answers the user, and the errors of the mathematics."""

from __future__ import annotations

from typing import ClassVar


class EntenteError(Exception):
    """An answer to the user rather than a bug: its message is one line that tells what to look at or change.

    ``cluster.errors`` draws the tree of all of them.
    """

    exit_code: ClassVar[int] = 2  # of a command that it ends


class CheckpointError(EntenteError, RuntimeError):
    """A model folder or checkpoint is missing, half written, altered or of another shape."""


class GroupingError(EntenteError, ValueError):
    """A key expression cannot be used: an unknown fact, an outcome, or roles would mix."""


class DivergenceError(EntenteError, RuntimeError):
    """The loss or its gradient is no longer a finite number; the weights are those before the failed step."""


class ResourceError(EntenteError, RuntimeError):
    """The machine has too little memory for the request; the message gives the need and what to change."""
