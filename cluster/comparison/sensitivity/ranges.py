"""The settings that are varied, their ranges, and places in the unit cube that stand for values of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
EPISODES = "episodes_per_update"


@dataclass(frozen=True, slots=True)
class Range:
    """One setting; ``spread`` says in what its values are evenly spread."""

    name: str
    low: float
    high: float
    spread: Literal["value", "logarithm", "logarithm of 1 - value"] = "value"
    is_whole: bool = False

    def value(self, place: float) -> float | int:
        """The value at a place in [0, 1]."""
        low, high = self._spread_out(self.low), self._spread_out(self.high)
        at = low + min(max(place, 0.0), 1.0) * (high - low)
        found = {"value": lambda: at, "logarithm": lambda: math.exp(at)}.get(self.spread, lambda: 1 - math.exp(at))()
        return round(found) if self.is_whole else float(found)

    def place(self, value: float) -> float:
        """The place of a value, in [0, 1]."""
        low, high = self._spread_out(self.low), self._spread_out(self.high)
        return (self._spread_out(value) - low) / (high - low)

    def _spread_out(self, value: float) -> float:
        if self.spread == "value":
            return value
        return math.log(value if self.spread == "logarithm" else 1 - value)


RANGES: Sequence[Range] = (
    Range("learning_rate", 1e-4, 3e-2, "logarithm"),
    Range("epsilon", 0.05, 0.5, "logarithm"),
    Range("epochs", 1, 8, is_whole=True),
    Range("minibatches", 1, 16, "logarithm", is_whole=True),
    Range("discount", 0.9, 0.999, "logarithm of 1 - value"),
    Range(EPISODES, 8, 128, "logarithm", is_whole=True),
)


def places(settings: Sequence[Mapping[str, float]]) -> Float64Array:
    """Where trials lie in the unit cube, shape (trials, settings)."""
    return np.array([[each.place(float(trial[each.name])) for each in RANGES] for trial in settings], np.float64)


def values(place: Sequence[float]) -> dict[str, float | int]:
    """The settings at a place of the unit cube."""
    return {each.name: each.value(at) for each, at in zip(RANGES, place, strict=True)}
