"""Keys and values of many sequences of unequal lengths, one row per sequence."""

from __future__ import annotations

from torch import Tensor


class KvCache:
    """Keys and values of all layers, (2 * layers, rows, positions, heads * head_dim); grows as it fills."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.positions = 0
        self.layers = layers
        self._states: Tensor | None = None  # keys of layer n at 2n, its values at 2n + 1

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for so many rows and positions, and keep what is stored."""
        if rows <= self.rows and positions <= self.positions:
            return
        self.rows = max(self.rows, _power_of_two(rows, 8))
        self.positions = max(self.positions, _power_of_two(positions, 64))
        old = self._states
        if old is not None:
            self._states = self._empty(old)
            self._states[:, : old.shape[1], : old.shape[2]] = old

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first ``length`` positions over another row."""
        if self._states is not None:
            self._states[:, target, :length] = self._states[:, source, :length]

    def store(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write (N, heads * head_dim) at ``places`` = row * positions + position; return the layer's whole stores."""
        if self._states is None:
            self._states = self._empty(keys)
        all_keys, all_values = self._states[2 * layer], self._states[2 * layer + 1]
        all_keys.view(-1, keys.shape[1]).index_copy_(0, places, keys)
        all_values.view(-1, values.shape[1]).index_copy_(0, places, values)
        return all_keys, all_values

    def _empty(self, like: Tensor) -> Tensor:
        # Zeros, not uninitialized memory: masked positions are multiplied by zero, and zero times NaN is NaN.
        return like.new_zeros(2 * self.layers, self.rows, self.positions, like.shape[-1])


def _power_of_two(needed: int, least: int) -> int:
    return max(least, 1 << (needed - 1).bit_length())
