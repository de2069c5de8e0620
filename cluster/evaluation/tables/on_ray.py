"""Plays tables on the machines of a Ray cluster."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cluster.errors import RunError
from cluster.evaluation.tables.places import GAME_TIMEOUT_S, OPENING_TIMEOUT_S, Done, Place
from cluster.evaluation.tables.table import Played, PlayerSpec, Table
from cluster.runtime.actor_env import actor_environment
from cluster.runtime.ray_calls import LOOK_EVERY_S, cause_of_death, check_waiting
from cluster.runtime.ray_session import ray_cluster
from opponents.players.chat_players import ChatPlayers
from services.environments.environment import World


class TablesActor:
    """Players that are open in a process of the cluster."""

    def __init__(self, world: World, players: Sequence[PlayerSpec]) -> None:
        from cluster.evaluation.tables.playing import OpenTables

        self._tables = OpenTables(world, players, ChatPlayers({}, world.language))

    async def concurrent_games(self) -> int:
        """How many games this process plays at once."""
        return self._tables.concurrent_games

    async def play(self, table: Table) -> Played:
        """Play one game."""
        return await self._tables.play(table)


@dataclass(slots=True)
class _Call:
    """A call of an actor's method under way."""

    actor: int
    table: Table | None  # None: the actor's players are being opened


class _OnRay:
    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = dict(enumerate(actors))
        self._room: dict[int, int] = {}  # games that an actor can still take; none before it is ready
        self._calls: dict[Any, _Call] = {
            actor.concurrent_games.remote(): _Call(number, None) for number, actor in self._actors.items()
        }

    def play(self, tables: Sequence[Table], done: Done) -> None:
        import ray

        waiting, missing = deque(tables), len(tables)
        last_sign = time.monotonic()
        while missing:
            for number in sorted(self._room, key=self._room.__getitem__, reverse=True):
                while waiting and self._room[number] > 0:
                    table = waiting.popleft()
                    self._calls[self._actors[number].play.remote(table)] = _Call(number, table)
                    self._room[number] -= 1
            ready, _ = ray.wait(list(self._calls), num_returns=1, timeout=LOOK_EVERY_S)
            check_waiting()
            for ref in ready:
                last_sign = time.monotonic()
                played = self._answer(ref, waiting)
                if played is not None:
                    missing -= 1
                    done(played)
            self._check_signs(time.monotonic() - last_sign)

    def _answer(self, ref: Any, waiting: deque[Table]) -> Played | None:
        """Take an answer; the tables of an actor that died go back to ``waiting``."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        call = self._calls.pop(ref)
        try:
            answer: Played | int = ray.get(ref, timeout=GAME_TIMEOUT_S)
        except RayTaskError as error:
            raise error.cause from None
        except RayActorError as error:
            if call.table is not None:
                waiting.append(call.table)
            self._actors.pop(call.actor, None)
            self._room.pop(call.actor, None)
            if not self._actors:
                raise RunError(
                    f"no process is left that plays evaluation games; the last {cause_of_death(error)}. Are the "
                    "players' folders on all machines, and is there enough memory?"
                ) from None
            return None
        if isinstance(answer, Played):
            self._room[call.actor] += 1
            return answer
        self._room[call.actor] = answer + 1  # the next one begins without waiting for this process
        return None

    def _check_signs(self, silent_s: float) -> None:
        if not self._room and silent_s > OPENING_TIMEOUT_S:
            raise RunError(
                f"no process of the cluster could open the players within {OPENING_TIMEOUT_S:.0f} s: each needs a free "
                "CPU, see `ray status`"
            )
        if silent_s > GAME_TIMEOUT_S:
            raise RunError(f"no evaluation game ended within {GAME_TIMEOUT_S:.0f} s; see the logs of the actors")


@contextmanager
def on_ray(address: str | None, count: int | None, world: World, players: Sequence[PlayerSpec]) -> Iterator[Place]:
    """Play in ``count`` actors with one CPU each; None: one for each CPU of the cluster.

    ``address`` is the cluster's; None starts a Ray on this machine, which ends with the block. Folders of players must
    have the same path on all machines. A process that dies is left out, and its games are played by the others.
    """
    with ray_cluster(address, count or 1, embedded_replay=False):
        import ray

        wanted = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor = ray.remote(TablesActor).options(
            num_cpus=1, max_restarts=0, max_concurrency=1000, runtime_env=actor_environment(1)
        )
        actors = [actor.remote(world, players) for _ in range(wanted)]
        try:
            yield _OnRay(actors)
        finally:
            for each in actors:
                ray.kill(each)
