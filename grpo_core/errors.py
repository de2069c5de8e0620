"""What can go wrong in the mathematics, each with a message that says what to look at."""

from __future__ import annotations


class CheckpointError(RuntimeError):
    """A model folder or checkpoint is missing, half written, altered or of another shape."""


class GroupingError(ValueError):
    """A key expression cannot be used: an unknown fact, an outcome, or roles would mix."""


class DivergenceError(RuntimeError):
    """The loss or its gradient is no longer a finite number; the weights are those before the failed step."""


class ResourceError(RuntimeError):
    """There is not memory enough for what was asked; the message says how much is needed and what to change."""
