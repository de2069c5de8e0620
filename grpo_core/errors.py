"""What can go wrong in the mathematics, each with a message that says what to look at."""

from __future__ import annotations


class CheckpointError(RuntimeError):
    """A model folder or checkpoint is missing, half written, altered or of another shape; one line says which."""


class GroupingError(ValueError):
    """A key expression cannot be used: an unknown fact, one made from outcomes, or one that would mix roles."""


class DivergenceError(RuntimeError):
    """The loss or its gradient is no longer a finite number; the weights are those before the failed step."""
