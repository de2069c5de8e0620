"""Time slicing of one engine between several sets of weights, and exclusive access for weight swaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from services.inference.engine import EngineError

Weights = TypeVar("Weights")
_Entry = tuple[Callable[[], Weights], asyncio.Future[None]]  # returns the weights a decision needs; admits the decision


class WeightScheduler(Generic[Weights]):
    """Lets a decision begin only while the weights it needs are loaded, and none while weights are being loaded.

    A decision that needs other weights waits. While any decision waits, no other begins. When the running ones have
    finished, the scheduler loads the weights that were requested first and admits all decisions that wait for them. So
    a decision waits for at most two decisions and one load per set of weights ahead of it.
    """

    def __init__(self, loaded: Weights, load: Callable[[Weights], Awaitable[None]], timeout_s: float) -> None:
        """Begin with the loaded weights, compared by identity; ``load`` is called while no decision runs.

        ``timeout_s`` is the longest time that running decisions may take to finish.
        """
        self.loaded = loaded  # what decisions run under; a caller with exclusive access may load others and set it
        self._load = load
        self._timeout_s = timeout_s
        self._running = 0  # decisions
        # In order of arrival. The weights that a decision needs are requested each time: a swap may change them.
        self._waiting: list[_Entry[Weights]] = []
        self._swap = asyncio.Lock()  # held while weights are being loaded, and during exclusive access
        self._exclusive = 0  # callers that have exclusive access or wait for it
        self._finished = asyncio.Event()
        self._rotation: asyncio.Task[None] | None = None
        self.switches = 0  # loads so that other weights had their turn

    @property
    def waiting(self) -> int:
        """Decisions that may not begin yet."""
        return len(self._waiting)

    @asynccontextmanager
    async def decision(self, needed: Callable[[], Weights]) -> AsyncIterator[None]:
        """Run one decision under the weights of ``needed``. Raises ``EngineError`` if they cannot be loaded."""
        admitted = not self._waiting  # a decision that was admitted once does not queue behind other weights again
        while not admitted or self._exclusive or self._swap.locked() or needed() is not self.loaded:
            await self._wait(needed)
            admitted = True
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._finished.set()

    @asynccontextmanager
    async def exclusive(self, *, drained: bool) -> AsyncIterator[None]:
        """Let no decision begin; with ``drained``, wait until the running ones have finished (see ``drain``)."""
        self._exclusive += 1
        try:
            async with self._swap:
                if drained:
                    await self.drain()
                yield
        finally:
            self._exclusive -= 1
            self._start_rotation()

    async def drain(self) -> None:
        """Wait, with exclusive access, for the running decisions. Raises ``EngineError`` if they are late."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while self._running:
                    self._finished.clear()
                    await self._finished.wait()
        except TimeoutError:
            raise EngineError(
                f"{self._running} decisions in flight did not finish within {self._timeout_s:.0f} s, so no weights "
                "were swapped; is the engine stuck, or inference.max_completion_length very long?"
            ) from None

    def fail_waiting(self, error: EngineError) -> None:
        """Make all waiting decisions raise ``error``."""
        self._reject(self._waiting.copy(), error)

    async def _wait(self, needed: Callable[[], Weights]) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (needed, gate)
        self._waiting.append(entry)
        self._start_rotation()
        try:
            await gate
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _start_rotation(self) -> None:
        if not self._exclusive and self._waiting and (self._rotation is None or self._rotation.done()):
            self._rotation = asyncio.create_task(self._rotate(), name="weight rotation")

    async def _rotate(self) -> None:
        """Load what was requested first and admit the decisions that wait for it, until none waits."""
        while self._waiting and not self._exclusive:
            self._reject_impossible()
            if not self._waiting:
                return
            weights = self._waiting[0][0]()
            try:
                await self._switch(weights)
            except Exception as error:  # noqa: BLE001  (decisions that wait must get it, or they wait forever)
                reason = error if isinstance(error, EngineError) else EngineError(f"weights cannot be loaded: {error}")
                self._reject(self._waiting_for(weights), reason)
                continue
            admitted = self._waiting_for(self.loaded)
            self._waiting = [entry for entry in self._waiting if entry not in admitted]
            for _, gate in admitted:
                if not gate.done():
                    gate.set_result(None)
            await asyncio.sleep(0)  # the admitted ones begin before the next weights are looked for

    async def _switch(self, weights: Weights) -> None:
        """Load the weights, unless every decision that waited for them was cancelled in the meantime."""
        if weights is self.loaded:
            return
        async with self._swap:
            await self.drain()
            if self._waiting_for(weights):
                await self._load(weights)
                self.loaded = weights
                self.switches += 1

    def _waiting_for(self, weights: Weights) -> list[_Entry[Weights]]:
        self._reject_impossible()
        return [entry for entry in self._waiting if entry[0]() is weights]

    def _reject_impossible(self) -> None:
        """Fail the decisions whose policy was removed, or all when the engine is closed."""
        for entry in self._waiting[:]:
            try:
                entry[0]()
            except EngineError as error:
                self._reject([entry], error)

    def _reject(self, entries: list[_Entry[Weights]], error: EngineError) -> None:
        for entry in entries:
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_exception(error)
