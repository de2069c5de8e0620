"""The base class of all errors with a message for the user, and the errors of this package."""

from __future__ import annotations

from typing import ClassVar


class EntenteError(Exception):
    """An error that is not a bug: its message is one line that tells the user what to look at or change.

    ``cluster.errors`` lists all of them.
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
