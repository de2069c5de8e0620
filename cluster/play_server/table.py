"""All lines of a server: the page's requests are done here one after another, each on disk before it counts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cluster.play_server import entry
from cluster.play_server.document import loaded_line
from cluster.play_server.entry import RefusedError
from cluster.play_server.line import Line, advance, fork, new_line
from cluster.play_server.players import Players
from cluster.play_server.rounds import Round
from cluster.play_server.seats import PERSON
from cluster.play_server.storage import GamesFolder
from grpo_core.errors import StorageError, one_line
from services.environments.diplomacy.ending import parse_ending
from services.environments.diplomacy.position import POWERS

MOST_LINES = 500
LOADED_PHASES_TIMEOUT_S = 60.0


class MissingError(RefusedError):
    """There is no such line or phase."""

    status = 404


class Watcher:
    """What has changed since a page was told last."""

    def __init__(self) -> None:
        self._changed: set[int] = set()
        self._event = asyncio.Event()

    def tell(self, line_id: int) -> None:
        """Note a change."""
        self._changed.add(line_id)
        self._event.set()

    async def wait(self, limit_s: float) -> list[int]:
        """The lines that have changed, after ``limit_s`` at the latest; none if none has."""
        try:
            await asyncio.wait_for(self._event.wait(), limit_s)
        except TimeoutError:
            return []
        self._event.clear()
        changed, self._changed = sorted(self._changed), set()
        return changed


class Table:
    """The lines of a server and the answers of players in them."""

    def __init__(self, folder: GamesFolder, players: Players, defaults: Mapping[str, str]) -> None:
        """Read the lines of ``folder``; ``defaults`` are the players of seats in games from elsewhere."""
        self.lines, self.problems = folder.read()
        self.players = players
        self.watchers: set[Watcher] = set()
        self.is_closing = False
        self._folder = folder
        self._defaults = dict(defaults)
        self._rounds: dict[int, Round] = {}
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def line(self, line_id: int) -> Line:
        """A line by its number; MissingError if there is none."""
        try:
            return self.lines[line_id]
        except KeyError:
            raise MissingError(f"there is no line {line_id}") from None

    def round(self, line: Line) -> Round | None:
        """The answers of a line's present phase."""
        found = self._rounds.get(line.id)
        return found if found is not None and found.phases == len(line.phases) else None

    async def begin(self, seats: Mapping[str, str], *, seed: int, until: str, name: str = "") -> Line:
        """Begin a game at the standard opening."""
        self._check_seats(seats)
        if missing := [power for power in POWERS if power not in seats]:
            raise RefusedError(f"no player is named for {', '.join(missing)}")
        return await self._add(lambda number: new_line(number, seats, seed=seed, until=until, name=name))

    async def fork(self, line_id: int, index: int, *, redraw: bool) -> Line:
        """Begin a line at an earlier phase of another; with ``redraw`` all players decide again from there."""
        line = self.line(line_id)
        if not 0 <= index < len(line.phases):
            raise MissingError(f"line {line_id} has no phase {index}")
        seed = secrets.randbelow(1 << 53) if redraw else line.seed
        return await self._add(lambda number: fork(line, index, number, seed=seed))

    async def load(self, document: Any, name: str, *, seed: int, until: str) -> Line:
        """Begin a line where a saved game ended; raises SavedGameError for others, RefusedError for a late one."""
        reading = asyncio.to_thread(loaded_line, document, 1, self._defaults, seed=seed, until=until, name=name)
        try:
            made = await asyncio.wait_for(reading, LOADED_PHASES_TIMEOUT_S)
        except TimeoutError:
            raise RefusedError(f"the saved game was not read within {LOADED_PHASES_TIMEOUT_S:.0f} s") from None
        return await self._add(lambda number: replace(made, id=number, name=f"{made.name} ({number})"))

    async def change(self, line_id: int, phase: str, changed: Callable[[Line], Line]) -> Line:
        """Change a line whose present phase is ``phase``, and let it go on if it can."""
        async with self._lock:
            line = self.line(line_id)
            entry.check_phase(line, phase)
            await self._store(changed(line))
        self.wake(line_id)
        return self.line(line_id)

    async def seat(self, line_id: int, phase: str, power: str, player: str) -> Line:
        """Let another player, or a person, play a power."""
        self._check_seats({power: player})
        return await self.change(line_id, phase, lambda line: entry.seat(line, power, player))

    async def end_at(self, line_id: int, until: str) -> Line:
        """Change when a game ends, also of one that is over."""
        _ = parse_until(until)
        async with self._lock:
            await self._store(replace(self.line(line_id), until=until))
        self.wake(line_id)
        return self.line(line_id)

    def retry(self, line_id: int) -> None:
        """Ask the players again that have failed."""
        line = self.line(line_id)
        found = self.round(line)
        if found is not None:
            found.forget_failures()
        self.wake(line_id)

    def wake(self, line_id: int) -> None:
        """Ask the players of a line's present phase, and let it go on if all have answered."""
        task = asyncio.create_task(self._settle(line_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all pages' streams and give up all answers; what is on disk is complete already."""
        self.is_closing = True
        for watcher in self.watchers:
            watcher.tell(0)
        for each in self._rounds.values():
            each.cancel()
        async with self._lock:  # a change that has begun is written
            pass
        await asyncio.to_thread(self.players.close)

    async def _settle(self, line_id: int) -> None:
        async with self._lock:
            while not self.is_closing:
                line = self.line(line_id)
                answers = self._ask(line)
                if not (line.goes_on and answers.is_complete()):
                    break
                orders = {**answers.orders(), **entry.orders_of_people(line)}
                try:
                    await self._store(await asyncio.to_thread(_adjudicated, line, orders))
                except (RefusedError, StorageError) as error:
                    self._report(str(error))
                    break
        self._tell(line_id)

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _ask(self, line: Line) -> Round:
        found = self.round(line)
        if found is None:
            if line.id in self._rounds:
                self._rounds[line.id].cancel()
            found = self._rounds[line.id] = Round(len(line.phases))
        found.ask(line, self.players, lambda: self.wake(line.id))
        return found

    async def _add(self, made: Callable[[int], Line]) -> Line:
        async with self._lock:
            if len(self.lines) >= MOST_LINES:
                raise RefusedError(f"there are {MOST_LINES} lines; move some of their files away and start again")
            line = made(self._folder.next_number())
            await self._store(line)
        self.wake(line.id)
        return self.line(line.id)

    async def _store(self, line: Line) -> None:
        line = replace(line, revision=line.revision + 1)
        await asyncio.to_thread(self._folder.write, line)
        self.lines[line.id] = line
        self._tell(line.id)

    def _tell(self, line_id: int) -> None:
        for watcher in self.watchers:
            watcher.tell(line_id)

    def _check_seats(self, seats: Mapping[str, str]) -> None:
        for power, player in seats.items():
            if power not in POWERS:
                raise MissingError(f"there is no power {one_line(repr(power), 40)}")
            if player != PERSON and player not in self.players.sources:
                raise MissingError(f"no player is called {one_line(repr(player), 80)}")


def _adjudicated(line: Line, orders: Mapping[str, tuple[str, ...]]) -> Line:
    try:
        return advance(line, orders)
    except Exception as error:  # the engine checks little of a game from elsewhere
        said = one_line(f"{type(error).__name__}: {error}", 200)
        raise RefusedError(f"the engine cannot go on with {line.name} in {line.present.name}: {said}") from error


def parse_until(until: str) -> str:
    """Return an ending as it is; RefusedError for one that is neither a year nor "end"."""
    try:
        parse_ending(until)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    return until
