"""Keys and values of many sequences of unequal lengths, a row each."""

from __future__ import annotations

from torch import Tensor


class KvCache:
    """Per layer, keys and values of shape (rows, positions, heads * head_dim); grows as it fills."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.positions = 0
        self.layers = layers
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers

    def reserve(self, rows: int, positions: int) -> None:
        """Make room for so many rows and positions; what is stored stays."""
        if rows <= self.rows and positions <= self.positions:
            return
        self.rows = max(self.rows, _power_of_two(rows, 8))
        self.positions = max(self.positions, _power_of_two(positions, 64))
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                if old is not None:
                    # Zeros and not garbage: masked positions are multiplied by zero, which must not meet a
                    # NaN.
                    new = old.new_zeros(self.rows, self.positions, old.shape[2])
                    new[: old.shape[0], : old.shape[1]] = old
                    stores[layer] = new

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first ``length`` positions over another row."""
        for store in (*self.keys, *self.values):
            if store is not None:
                store[target, :length] = store[source, :length]

    def store(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write (N, heads * head_dim) at ``places`` = row * positions + position; give both whole stores."""
        kept_keys, kept_values = self.keys[layer], self.values[layer]
        if kept_keys is None or kept_values is None:
            kept_keys = self.keys[layer] = keys.new_zeros(self.rows, self.positions, keys.shape[1])
            kept_values = self.values[layer] = values.new_zeros(self.rows, self.positions, values.shape[1])
        kept_keys.view(-1, keys.shape[1]).index_copy_(0, places, keys)
        kept_values.view(-1, values.shape[1]).index_copy_(0, places, values)
        return kept_keys, kept_values


def _power_of_two(needed: int, least: int) -> int:
    return max(least, 1 << (needed - 1).bit_length())
