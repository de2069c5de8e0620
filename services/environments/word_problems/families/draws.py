"""Random draws that are equal on every machine and under every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of draws from a seed text.

    It is made of ``random.random()`` alone, the one method whose sequence Python promises not to change.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random()
        self._random.seed(seed, version=2)  # the hash of the text, not Python's hash()

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def one(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.whole(0, len(items) - 1)]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` different items in random order."""
        left = list(items)
        return [left.pop(self.whole(0, len(left) - 1)) for _ in range(count)]
