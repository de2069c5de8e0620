"""A player that stays open: its model is loaded once, for single decisions and for many games."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from cluster.api.arguments import check_name, check_power, check_temperature
from cluster.configs.loader import Source
from cluster.errors import RunError

if TYPE_CHECKING:
    from opponents.players.chat_players import ChatPlayers
    from services.environments.diplomacy.position import Position
    from services.environments.playing import Decision, Policy
    from services.environments.seat_player import SeatPlayer


class _Call:
    """A decision in the player's event loop that another thread can give up, whether it has begun or not."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._task: asyncio.Task[object] | None = None
        self._is_given_up = False

    async def decide(self, position: Position, power: str, seed: int) -> Decision:
        if self._is_given_up:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._policy.act(position, power, seed)

    async def give_up(self) -> None:
        self._is_given_up = True
        if self._task is not None:
            self._task.cancel()


class Player:
    """An open player; ``act`` and ``act_async`` may be called from any thread and any event loop, many at once.

    Its engine or connections live in an event loop of their own, in a thread that starts with the first decision and
    ends with ``close``, the end of a ``with`` block, or the program; decisions that are under way then are given up.
    """

    def __init__(self, name: str, policy: Policy, remotes: ChatPlayers, description: SeatPlayer) -> None:
        self.name = name  # a bot's, champion, a folder or remote:NAME
        self.description = description  # what a saved game says of it
        self._policy = policy
        self._remotes = remotes
        self._stack = ExitStack()
        self._end = weakref.finalize(self, self._stack.close)  # also at the end of the program
        self._portal: BlockingPortal | None = None
        self._closed = False
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<entente.Player {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def act(self, position: Position, power: str, seed: int) -> Decision:
        """Decide for ``power``; the same position, power and seed give the same decision (an endpoint's may differ).

        Blocks the calling thread; inside an event loop ``act_async`` lets others run. ``Decision.orders`` are the
        orders in standard notation. ``services.environments.diplomacy.game.DiplomacyGame(1901).position`` is the
        opening position.

        Raises RunError for an unknown power or a player that is closed, EngineError if its engine fails, EndpointError
        if its endpoint does.
        """
        power = check_power(power)
        portal, call = self._open_portal(), _Call(self._policy)
        try:
            return portal.start_task_soon(call.decide, position, power, seed).result()
        except CancelledError:
            raise self._gave_up() from None
        except BaseException:  # an interruption too ends the decision, also one before its future is here
            with suppress(RuntimeError):  # the player was closed
                portal.start_task_soon(call.give_up)
            raise

    async def act_async(self, position: Position, power: str, seed: int) -> Decision:
        """Decide as ``act`` does, for a caller inside an event loop."""
        power = check_power(power)
        answer = self._open_portal().start_task_soon(self._policy.act, position, power, seed)
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise self._gave_up() from None

    @property
    def costs(self) -> Mapping[str, float]:
        """Counters of a remote player's calls, failures, tokens and cost; empty for other players."""
        return next(iter(self._remotes.stats().values()), {})

    def close(self) -> None:
        """End the player's decisions, thread and connections; a second call does nothing."""
        with self._mutex:
            self._closed = True
            portal, self._portal = self._portal, None
        try:
            if portal is not None:
                portal.call(self._remotes.close)
        finally:
            self._end()

    def _gave_up(self) -> RunError:
        return RunError(f"the player {self.name} was closed while it decided")

    def _open_portal(self) -> BlockingPortal:
        with self._mutex:
            if self._closed:
                raise RunError(f"the player {self.name} is closed; open it again")
            if self._portal is None:
                self._portal = self._stack.enter_context(start_blocking_portal(name="entente-player"))
                self._stack.callback(_cancel_all, self._portal)  # the portal itself would wait for its decisions
            return self._portal


def _cancel_all(portal: BlockingPortal) -> None:
    with suppress(RuntimeError):  # it has ended
        portal.call(portal.stop, True)


def open_player(
    name: str | os.PathLike[str],
    *,
    temperature: float | None = None,
    config: Source | None = None,
) -> Player:
    """Open a bot, ``champion``, a checkpoint or run (a folder or a ``Run``; its newest checkpoint), or ``remote:NAME``.

    A checkpoint samples at ``temperature`` (0 to 100; 0: greedy), by default that of its run's training games.
    ``config`` is a configuration whose ``[opponents.remotes]`` describe the players ``remote:NAME``, given as for
    ``load_config``.

    Raises RunError for an unknown player or another temperature, CheckpointError if the folder is not a usable
    checkpoint, ConfigError if a configuration cannot be used, EndpointError if there is no such remote player or its
    key is missing.
    """
    from cluster.evaluation.players.opening import chat_players, newest, open_policy
    from cluster.evaluation.records.game_origins import describe_player

    named, temperature = check_name(name), check_temperature(temperature)
    remotes = chat_players(config)
    chosen = newest(named)
    policy = open_policy(chosen, remotes, temperature=temperature)
    return Player(named, policy, remotes, describe_player(chosen, remotes, temperature=temperature))
