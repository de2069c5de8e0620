"""Who may begin: only decisions of the weights that are loaded, and none while others are being loaded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from services.inference.engine import EngineError

Weights = TypeVar("Weights")


class WeightScheduler(Generic[Weights]):
    """Gives one engine to several sets of weights in turn (time slicing), and to swaps alone.

    Whoever wants weights that are not loaded waits. As soon as somebody waits nobody else begins; once those who are
    inside have left, the weights that were asked for first are loaded and all who wait for them go in. So nobody waits
    longer than two decisions and a swap for every set of weights ahead.
    """

    def __init__(self, loaded: Weights, load: Callable[[Weights], Awaitable[None]], timeout_s: float) -> None:
        """Begin with weights that are loaded.

        Args:
            loaded: what the engine began with; compared by identity.
            load: makes the engine run under these weights; nothing is in flight then.
            timeout_s: for those inside to leave.
        """
        self._loaded = loaded
        self._load = load
        self._timeout_s = timeout_s
        self._inside = 0
        # In the order they came, with what each wants now: a swap may change that while it waits.
        self._waiting: list[tuple[Callable[[], Weights], asyncio.Future[None]]] = []
        self._swap = asyncio.Lock()
        self._held = 0
        self._left = asyncio.Event()
        self._rotation: asyncio.Task[None] | None = None
        self.switches = 0

    @property
    def loaded(self) -> Weights:
        """The weights that decisions run under."""
        return self._loaded

    @property
    def waiting(self) -> int:
        """Decisions that may not begin yet."""
        return len(self._waiting)

    @asynccontextmanager
    async def under(self, wanted: Callable[[], Weights]) -> AsyncIterator[Weights]:
        """One decision under the weights that ``wanted`` names when it may begin.

        Raises:
            EngineError: these weights cannot be loaded; or whatever ``wanted`` raises.
        """
        while self._held or self._waiting or wanted() is not self._loaded:
            await self._wait(wanted)
            if not self._held and wanted() is self._loaded:
                break  # those who were let in do not queue again behind those who wait for other weights
        self._inside += 1
        try:
            yield self._loaded
        finally:
            self._inside -= 1
            self._left.set()

    @asynccontextmanager
    async def alone(self, *, drained: bool) -> AsyncIterator[None]:
        """Nobody begins; with ``drained`` those inside have left, without it they are still there.

        Raises:
            EngineError: they did not leave in time.
        """
        self._held += 1
        try:
            async with self._swap:
                if drained:
                    await self.drain()
                yield
        finally:
            self._held -= 1
            self._go_on()

    async def drain(self) -> None:
        """Wait, alone, until those inside have left.

        Raises:
            EngineError: they did not leave in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while self._inside:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            raise EngineError(
                f"{self._inside} decisions in flight did not finish within {self._timeout_s:.0f} s, so no weights were "
                "swapped; is the engine stuck, or inference.max_completion_length very long?"
            ) from None

    def now_loaded(self, weights: Weights) -> None:
        """To be told by whoever loaded other weights while alone."""
        self._loaded = weights

    def fail(self, error: EngineError) -> None:
        """Send away all who wait."""
        self._send_away(self._waiting[:], error)

    async def _wait(self, wanted: Callable[[], Weights]) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (wanted, gate)
        self._waiting.append(entry)
        self._go_on()
        try:
            await gate
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _go_on(self) -> None:
        if not self._held and self._waiting and (self._rotation is None or self._rotation.done()):
            self._rotation = asyncio.create_task(self._rotate(), name="weights in turn")

    async def _rotate(self) -> None:
        """Load what was asked for first, let in whoever waits for it, until nobody waits."""
        while self._waiting and not self._held:
            self._dismiss_hopeless()
            if not self._waiting:
                return
            weights = self._waiting[0][0]()
            if weights is not self._loaded:
                try:
                    async with self._swap:
                        if weights is not self._loaded:  # still not: somebody may have been alone meanwhile
                            await self.drain()
                            await self._load(weights)
                            self._loaded = weights
                            self.switches += 1
                except Exception as error:  # noqa: BLE001  (it must reach those who wait, or they wait for ever)
                    reason = (
                        error if isinstance(error, EngineError) else EngineError(f"weights cannot be loaded: {error}")
                    )
                    self._dismiss_hopeless()
                    self._send_away([entry for entry in self._waiting if entry[0]() is weights], reason)
                    continue
            self._dismiss_hopeless()
            admitted = [entry for entry in self._waiting if entry[0]() is self._loaded]
            self._waiting = [entry for entry in self._waiting if entry not in admitted]
            for _, gate in admitted:
                if not gate.done():
                    gate.set_result(None)
            await asyncio.sleep(0)  # they go in before it is looked who waits next

    def _dismiss_hopeless(self) -> None:
        """Send away those whose wish has become impossible: their policy was removed, or the engine is closed."""
        for entry in self._waiting[:]:
            try:
                entry[0]()
            except EngineError as error:
                self._send_away([entry], error)

    def _send_away(self, entries: list[tuple[Callable[[], Weights], asyncio.Future[None]]], error: EngineError) -> None:
        for entry in entries:
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_exception(error)
