"""Where tables are played: in this process, in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

from cluster.errors import RunError
from cluster.evaluation.event_loop import Run, event_loop
from cluster.evaluation.players.members import member_name
from cluster.evaluation.tables.table import Played, PlayerSpec, Table
from cluster.evaluation.tables.worker_process import Failed, Message, Ready, run_worker
from cluster.runtime.actor_env import actor_variables, started_with
from cluster.runtime.memory import WORKER_BYTES, available_bytes
from cluster.runtime.stop_signals import start_shielded
from grpo_core.checkpoints.folders import latest_checkpoint
from opponents.champion.shipped import player_folder
from opponents.player_names import player_name
from opponents.players.chat_players import ChatPlayers
from services.environments.environment import World

OPENING_TIMEOUT_S = 600.0  # for importing torch and reading weights, on a loaded machine
GAME_TIMEOUT_S = 3600.0  # without the end of a game in any process
END_TIMEOUT_S = 10.0
COPIES_OF_WEIGHTS = 3  # float32 of a bfloat16 file, and one while it loads

Done = Callable[[Played], None]


class Place(Protocol):
    """Plays tables of the players that it was opened with."""

    def play(self, tables: Sequence[Table], done: Done) -> None:
        """Play all tables; ``done`` takes each as it ends, in any order.

        Raises RunError if players cannot be opened or a process dies, other EntenteErrors if a player fails.
        """
        ...


# Opens players, and a place where they play a world as evaluations play it (``World.as_evaluated`` or ``as_measured``).
Open = Callable[[World, Sequence[PlayerSpec]], AbstractContextManager[Place]]


class _ThisProcess:
    def __init__(self, world: World, players: Sequence[PlayerSpec], remotes: ChatPlayers, run: Run) -> None:
        from cluster.evaluation.tables.playing import OpenTables  # players are slow to import

        self._tables = OpenTables(world, players, remotes)
        self._run = run

    def play(self, tables: Sequence[Table], done: Done) -> None:
        async def play_all() -> None:
            try:
                await self._tables.play_all(tables, done)
            except ExceptionGroup as group:
                raise group.exceptions[0] from None

        self._run(play_all)


@contextmanager
def this_process(world: World, players: Sequence[PlayerSpec], remotes: ChatPlayers | None = None) -> Iterator[Place]:
    """Play in this process: also open players and ``remotes``."""
    remotes = remotes or ChatPlayers({}, world.language)
    with event_loop() as run:  # one for all tables: connections of chat players belong to it
        try:
            yield _ThisProcess(world, players, remotes, run)
        finally:

            async def close() -> None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(END_TIMEOUT_S):
                        await remotes.close()

            run(close)


class _Processes:
    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._room: dict[Connection, int] = {}  # games that may be sent to a process; none before it is ready

    def play(self, tables: Sequence[Table], done: Done) -> None:
        waiting, playing = deque(tables), 0
        deadline = time.monotonic() + (GAME_TIMEOUT_S if self._room else OPENING_TIMEOUT_S)
        while waiting or playing:
            for connection in sorted(self._room, key=self._room.__getitem__, reverse=True):
                while waiting and self._room[connection] > 0:
                    _send(connection, waiting.popleft())
                    self._room[connection] -= 1
                    playing += 1
            for connection, message in self._messages(deadline):
                match message:
                    case Failed(reason, expected):
                        raise RunError(reason if expected else f"a process that plays games failed: {reason}")
                    case Ready(games):
                        self._room[connection] = games + 1  # the next one begins without waiting for this process
                    case Played():
                        self._room[connection] += 1
                        playing -= 1
                        done(message)
                deadline = time.monotonic() + GAME_TIMEOUT_S

    def _messages(self, deadline: float) -> Iterator[tuple[Connection, Message]]:
        ready = multiprocessing.connection.wait(self._connections, max(0.0, deadline - time.monotonic()))
        if not ready:
            what, limit_s = "no process that plays evaluation games was ready", OPENING_TIMEOUT_S
            if self._room:
                what, limit_s = "no evaluation game ended", GAME_TIMEOUT_S
            raise RunError(f"{what} within {limit_s:.0f} s; is the machine overloaded?")
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                yield connection, connection.recv()
            except (EOFError, ConnectionResetError):
                raise _death() from None


def _send(connection: Connection, table: Table) -> None:
    try:
        connection.send(table)
    except (BrokenPipeError, ConnectionResetError):
        raise _death() from None


def _death() -> RunError:
    return RunError(
        "a process that plays evaluation games died; its output above says why (out of memory? use fewer --processes)"
    )


@contextmanager
def processes(count: int, world: World, players: Sequence[PlayerSpec]) -> Iterator[Place]:
    """Play in ``count`` new processes of this machine, which open the players themselves; they end with the block."""
    context = multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    started: list[Any] = []
    try:
        with started_with(actor_variables(1)):
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=run_worker, args=(world, players, theirs))
                start_shielded(process)  # this process ends it
                theirs.close()
                connections.append(ours)
                started.append(process)
        yield _Processes(connections)
        for connection in connections:
            with suppress(BrokenPipeError, ConnectionResetError):  # all its games are played
                connection.send(None)
        _end(started, END_TIMEOUT_S)
    finally:
        _end(started, 0.0)  # after a failure or an interruption there is nothing to wait for
        for connection in connections:
            connection.close()


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(count: int) -> Open:
    """``processes`` for ``count``; a single one is this process itself."""
    return this_process if count == 1 else partial(processes, count)


def _end(started: Sequence[Any], grace_s: float) -> None:
    """Give the processes time to end by themselves, and kill those that do not."""
    deadline = time.monotonic() + grace_s
    for process in started:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join(END_TIMEOUT_S)


def processes_for(names: Sequence[str]) -> int:
    """How many processes play games of these players best: one for each core, where memory has room for the models.

    Each process has its own copy of every model, and computes with one thread.
    """
    cores = usable_cores()
    saved = [player_name(name).saved for name in names]
    members = {name: member[0] for name in saved if (member := member_name(name)) is not None}
    named = dict.fromkeys(members.get(name) or player_folder(name) for name in saved)
    folders = [folder for folder in named if folder.is_dir()]
    if not folders:
        return cores
    weights = sum(
        file.stat().st_size
        for folder in folders
        for file in (latest_checkpoint(folder) or folder).glob("*.safetensors")
    )
    each = WORKER_BYTES + COPIES_OF_WEIGHTS * weights
    return max(1, min(cores, available_bytes() // 2 // each))
