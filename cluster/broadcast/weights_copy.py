"""The weights of one broadcast on one node, which fill up chunk by chunk."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from cluster.broadcast.plan import Layout
from cluster.errors import LostError
from services.weights.payload import Payload, WeightsError

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"  # (bytes of a chunk,); Ray sends arrays without copies


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of a payload's bytes, with its checksum from the learner's node."""

    index: int
    layout: Layout
    checksum: int  # CRC-32 of ``data`` as the learner's node has it; a node passes it on unchanged
    data: Bytes
    head: Payload | None  # the payload without its bytes; chunk 0 alone carries it


def check_chunk(chunk: Chunk, sender: str) -> None:
    """Raise WeightsError, which names the ``sender``, if the chunk's bytes do not match its checksum."""
    found = zlib.crc32(chunk.data.data)
    if found != chunk.checksum:
        raise WeightsError(
            f"chunk {chunk.index + 1} of {chunk.layout.chunks} of the weights, from {sender}, is damaged: "
            f"{len(chunk.data)} bytes with CRC-32 {found:08x}, expected {chunk.checksum:08x}"
        )


class WeightsCopy:
    """A payload whose bytes are there (``whole``), or arrive chunk by chunk (``begun_with`` and ``store``)."""

    def __init__(self, head: Payload, layout: Layout, data: Bytes, checksums: dict[int, int], *, whole: bool) -> None:
        self._head = head
        self._layout = layout
        self._data = data
        self._checksums = checksums  # of the chunks that are there; of whole ones, as they are read
        self._whole = whole
        self._failure: str | None = None
        self._changed = asyncio.Condition()

    @classmethod
    def whole(cls, payload: Payload, chunk_bytes: int) -> WeightsCopy:
        """A copy with all chunks, whose bytes are the payload's own."""
        data = np.frombuffer(payload.data, dtype=np.uint8)
        return cls(replace(payload, data=b""), Layout(len(data), chunk_bytes), data, {}, whole=True)

    @classmethod
    def begun_with(cls, first: Chunk) -> WeightsCopy:
        """A copy that has chunk 0 alone, with room for the rest."""
        assert first.head is not None, "chunk 0 carries the payload's head"
        copy = cls(first.head, first.layout, np.empty(first.layout.size, dtype=np.uint8), {}, whole=False)
        copy._put(first)
        return copy

    @property
    def layout(self) -> Layout:
        """How the bytes are divided."""
        return self._layout

    @property
    def payload(self) -> Payload:
        """The payload; its bytes are this copy's, and must all be there."""
        assert self._whole or len(self._checksums) == self._layout.chunks, "chunks are missing"
        return replace(self._head, data=self._data.data.toreadonly())

    async def store(self, chunk: Chunk) -> None:
        """Take a checked chunk, and wake those who wait for it."""
        async with self._changed:
            self._put(chunk)
            self._changed.notify_all()

    async def fail(self, reason: str) -> None:
        """End every wait for a chunk: no more of them will come."""
        async with self._changed:
            self._failure = reason
            self._changed.notify_all()

    async def read(self, index: int) -> Chunk:
        """Return a chunk as soon as it is there; its bytes are not copied. Raises LostError if it will not come."""
        span = self._layout.span(index)
        if self._whole and index not in self._checksums:
            self._checksums[index] = zlib.crc32(self._data[span].data)
        async with self._changed:
            await self._changed.wait_for(lambda: index in self._checksums or self._failure is not None)
        if index not in self._checksums:
            raise LostError(f"chunk {index + 1} of {self._layout.chunks} did not arrive there: {self._failure}")
        head = self._head if index == 0 else None
        return Chunk(index, self._layout, self._checksums[index], self._data[span], head)

    def _put(self, chunk: Chunk) -> None:
        self._data[self._layout.span(chunk.index)] = chunk.data
        self._checksums[chunk.index] = chunk.checksum
