"""A process that plays tables: it takes them from a connection and sends back what came of them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from cluster.evaluation.tables.table import Played, PlayerSpec, Table
from grpo_core.errors import EntenteError, one_line
from services.environments.environment import World

PARENT_CHECKED_S = 1.0


@dataclass(frozen=True, slots=True)
class Ready:
    """The players are open; the process plays so many games at once."""

    concurrent_games: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The process ends because of an error, in one line; ``expected``: the user can do something about it."""

    reason: str
    expected: bool


Message = Ready | Played | Failed


def run_worker(world: World, players: Sequence[PlayerSpec], connection: Connection) -> None:
    """Run in the new process until the connection says None or closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):  # the parent process is gone
        try:
            asyncio.run(_serve(world, players, connection))
        except EntenteError as error:
            connection.send(Failed(one_line(error), expected=True))
        except ExceptionGroup as group:
            found = group.subgroup(EntenteError)
            first = (found or group).exceptions[0]
            connection.send(Failed(one_line(first), expected=found is not None))
            if found is None:
                raise


async def _serve(world: World, players: Sequence[PlayerSpec], connection: Connection) -> None:
    from cluster.evaluation.tables.playing import OpenTables  # players are slow to import
    from opponents.players.chat_players import ChatPlayers

    tables = OpenTables(world, players, ChatPlayers({}, world.language))
    gc.freeze()  # modules and players stay: looking through them again and again took a tenth of the time
    connection.send(Ready(tables.concurrent_games))
    parent = os.getppid()

    async def play(table: Table) -> None:
        connection.send(await tables.play(table))

    async with asyncio.TaskGroup() as group:
        while True:
            while not await asyncio.to_thread(connection.poll, PARENT_CHECKED_S):
                if os.getppid() != parent:
                    raise BrokenPipeError("the parent process is gone")
            table: Table | None = connection.recv()
            if table is None:
                return
            group.create_task(play(table))
