"""One node of a broadcast: it reads chunks from its parent in the tree, and lets its children read them from it.

There is no Ray in here: the relay of a Ray node and the simulated nodes of the benchmark run this same code.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from cluster.broadcast.plan import CHUNK_BYTES, TimeLimits
from cluster.broadcast.weights_copy import Chunk, WeightsCopy, check_chunk
from cluster.errors import LateError, LostError
from services.weights.payload import Payload, WeightsError

WINDOW = 4  # chunks that a node asks for at once, so that one travels while the others are waited for
KEPT = 2  # broadcasts whose bytes a node keeps: slow nodes may still read the last but one


class Source(Protocol):
    """A node that chunks can be read from."""

    @property
    def name(self) -> str:
        """What messages call it."""

    async def read(self, number: int, index: int) -> Chunk:
        """Return chunk ``index`` of broadcast ``number`` once it has it. Raises LostError if it cannot."""


@dataclass(frozen=True, slots=True)
class Received:
    """How a node got its weights."""

    seconds: float
    left: str | None  # why it read from the learner's node instead of its parent; None: it did not


class WeightsNode:
    """The weights of the newest broadcasts on one node; it lives in one asyncio event loop."""

    def __init__(self, limit_s: float) -> None:
        """``limit_s``: seconds for which a node may wait for a chunk of another one, and the bytes are kept for it."""
        self._limit_s = limit_s
        self._copies: dict[int, asyncio.Future[WeightsCopy]] = {}  # by broadcast; a future until its first chunk

    def offer(self, number: int, payload: Payload, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Let others read a payload that is here, without copying it."""
        self._begin(number, WeightsCopy.whole(payload, chunk_bytes))

    async def read(self, number: int, index: int) -> Chunk:
        """Return a chunk as soon as it is here.

        Raises LostError if it will not come, because this node failed or has begun later broadcasts; LateError if it
        did not come within the limit.
        """
        try:
            async with asyncio.timeout(self._limit_s):
                copy = await asyncio.shield(self._copy(number))
                return await copy.read(index)
        except TimeoutError:
            raise LateError(f"chunk {index + 1} did not arrive there within {self._limit_s:g} s") from None

    async def receive(
        self, number: int, parent: Source | None, root: Source, limits: TimeLimits
    ) -> tuple[Payload, Received]:
        """Read all chunks of a broadcast, and check each; ``parent`` None: all from the learner's node (``root``).

        From a parent that does not send a chunk in time, has died, or sends a damaged one, the rest is read from the
        learner's node instead. Raises LateError, LostError or WeightsError if that fails too.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        reader = _Reader(number, parent, root, limits, start)
        try:
            copy = WeightsCopy.begun_with(await reader.read(0))
            self._begin(number, copy)
            await _read_rest(reader, copy)
        except (LostError, WeightsError) as error:
            await self._fail(number, str(error))
            raise
        return copy.payload, Received(loop.time() - start, reader.left)

    def _copy(self, number: int) -> asyncio.Future[WeightsCopy]:
        if number not in self._copies:
            if len(self._copies) >= KEPT and number < min(self._copies):
                raise LostError(f"broadcast {number} is over there")
            self._copies[number] = asyncio.get_running_loop().create_future()
            while len(self._copies) > KEPT:
                self._drop(min(self._copies))
        return self._copies[number]

    def _begin(self, number: int, copy: WeightsCopy) -> None:
        future = self._copy(number)
        if not future.done():
            future.set_result(copy)
        # Until then a child may read; after that the memory is worth more.
        asyncio.get_running_loop().call_later(self._limit_s, self._drop, number)

    def _drop(self, number: int) -> None:
        future = self._copies.pop(number, None)
        if future is not None:
            _end(future, f"broadcast {number} is over there")

    async def _fail(self, number: int, reason: str) -> None:
        """Tell the children that no more chunks will come."""
        future = self._copies.get(number)
        if future is not None and future.done():
            await future.result().fail(reason)
        elif future is not None:
            _end(future, reason)


def _end(future: asyncio.Future[WeightsCopy], reason: str) -> None:
    if not future.done():
        future.set_exception(LostError(reason))
        future.exception()  # it may have no reader, which is no defect


async def _read_rest(reader: _Reader, copy: WeightsCopy) -> None:
    """Read all chunks after the first one, some at once."""
    rest = iter(range(1, copy.layout.chunks))

    async def read_on() -> None:
        for index in rest:
            await copy.store(await reader.read(index))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(WINDOW):
                group.create_task(read_on())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


class _Reader:
    """Reads chunks of one broadcast from the parent, or once that has failed from the learner's node."""

    def __init__(self, number: int, parent: Source | None, root: Source, limits: TimeLimits, start: float) -> None:
        self.left: str | None = None  # why the parent was given up
        self._number = number
        self._source = root if parent is None else parent
        self._root = root
        self._limits = limits
        self._start = start  # on the event loop's clock

    async def read(self, index: int) -> Chunk:
        while True:
            source = self._source
            try:
                async with asyncio.timeout_at(self._deadline(source)):
                    chunk = await source.read(self._number, index)
                check_chunk(chunk, source.name)
                return chunk
            except TimeoutError:
                failure: Exception = LateError(f"{source.name} did not send chunk {index + 1} in time")
            except (LostError, WeightsError) as error:
                failure = error
            if source is self._root:
                raise failure
            if source is self._source:
                self.left = str(failure)
                self._source = self._root

    def _deadline(self, source: Source) -> float:
        if source is self._root:
            return self._start + self._limits.total_s
        now = asyncio.get_running_loop().time()
        return min(now + self._limits.patience_s, self._start + self._limits.leave_s)
