"""How many bytes of tensors a piece of work holds at most, counted storage by storage."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class TensorMemory(TorchDispatchMode):
    """Counts what is made inside the block; ``peak`` is the most that was alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._now = 0
        self._alive: dict[int, int] = {}
        self._older: set[int] = set()  # weights, and whatever else was there before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for storage in self._unknown((args, kwargs)):
            self._older.add(storage._cdata)
            weakref.finalize(storage, self._older.discard, storage._cdata)
        out = func(*args, **(kwargs or {}))
        for storage in self._unknown(out):
            self._alive[storage._cdata] = storage.nbytes()
            self._now += storage.nbytes()
            self.peak = max(self.peak, self._now)
            weakref.finalize(storage, self._gone, storage._cdata)
        return out

    def _unknown(self, values: Any) -> Iterator[torch.UntypedStorage]:
        for tensor in _tensors(values):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._alive and storage._cdata not in self._older:
                yield storage

    def _gone(self, key: int) -> None:
        self._now -= self._alive.pop(key)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples, lists and dictionaries; torch's own tree walk takes longer than the operations."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
