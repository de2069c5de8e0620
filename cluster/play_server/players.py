"""The players that a server can seat: bots, checkpoints, remote players and a run's population.

They decide in a thread with an event loop of its own, so that the server answers while a model computes. Each is opened
once, at its first decision; seats that it plays share its engine, and so do all policies of one population.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cluster.evaluation.players.opening import newest, open_policy
from cluster.evaluation.records.decision_recorder import policy_of
from cluster.evaluation.records.game_origins import describe_player
from cluster.play_server.seats import Source
from cluster.runs.folder import config_of
from grpo_core.errors import EntenteError, one_line
from opponents.players.chat_players import ChatPlayers
from opponents.population.population import Population
from services.environments.diplomacy.position import Position
from services.environments.playing import Bot, Policy
from services.environments.seat_player import SeatPlayer

if TYPE_CHECKING:
    from cluster.evaluation.ratings.players import RatingPlayers
    from opponents.insight.sheets import SheetChoice

OPENING_TIMEOUT_S = 300.0  # a model of some GB is read
DECISION_TIMEOUT_S = 120.0
CLOSING_TIMEOUT_S = 5.0
HINTS = 5  # sheets
BOT_TRIES = 40
SLOW_BOT_TRIES = 4  # a few seconds

Result = TypeVar("Result")


class PlayerError(EntenteError):
    """A player cannot be opened or did not answer; the message is for the page."""


class Players:
    """Players by the names that the page shows."""

    def __init__(self, sources: Mapping[str, Source], remotes: ChatPlayers) -> None:
        """Open no player yet; ``remotes`` opens those of the kind "remote"."""
        self.sources = dict(sources)
        self._remotes = remotes
        self._opened: dict[str, Policy] = {}
        # Of policies, one after another: torch and transformers cannot be imported by several threads at once.
        self._opening = asyncio.Lock()
        self._populations: dict[Path, RatingPlayers] = {}
        self._descriptions: dict[str, SeatPlayer] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="entente-players", daemon=True)
        self._thread.start()

    async def decide(self, name: str, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The orders of a player. Raises PlayerError for an unknown one, one that fails, or one that is too slow."""
        policy = await self.open(name)
        decision = await self.run(lambda: policy.act(position, power, seed), DECISION_TIMEOUT_S, f"{name} for {power}")
        return decision.actions

    async def hints(self, name: str, position: Position, power: str) -> tuple[str, list[SheetChoice]]:
        """The sheets that a player is likeliest to write, the likeliest first, and what their probabilities are.

        Raises PlayerError for a player that tells none, such as a remote one, and as ``decide``.
        """
        policy = await self.open(name)

        async def ask() -> tuple[str, list[SheetChoice]]:
            async with self._opening:
                insight = await asyncio.to_thread(import_module, "opponents.insight.sheets")
            if isinstance(policy, Bot):
                tries = SLOW_BOT_TRIES if policy.is_slow else BOT_TRIES
                sheets = insight.frequent_sheets(policy, position, power, range(tries))
                return f"Shares of {tries} tries of the bot.", sheets[:HINTS]
            own = await policy_of(policy, power)
            if own is None:
                raise PlayerError(f"{name} tells no probabilities; ask a bot or a policy")
            told = "Probabilities of whole order sheets."
            if getattr(policy, "is_slow", False):
                told = "Probabilities of its policy's sheets, of which it gives the best after simulated games."
            return told, await insight.likeliest_sheets(own, position, power, HINTS)

        return await self.run(ask, DECISION_TIMEOUT_S, f"{name}, which was asked for hints,")

    def open_ahead(self) -> None:
        """Begin to open the policies that were named one by one; what fails is told when such a player is asked."""

        async def open_all() -> None:
            for name, source in self.sources.items():
                if source.kind == "policy" and source.run is None and source.is_opened_ahead:
                    with suppress(Exception):  # its seat shows it
                        await self._open(name)

        asyncio.run_coroutine_threadsafe(open_all(), self._loop)

    async def open(self, name: str) -> Policy:
        """The open player; raises PlayerError if there is none or it cannot be opened."""
        if name not in self.sources:
            raise PlayerError(
                f"no player is called {one_line(repr(name), 80)} now: start the server with it, or seat another"
            )
        return await self.run(lambda: self._open(name), OPENING_TIMEOUT_S, f"{name}, which is being opened")

    async def run(self, work: Callable[[], Coroutine[Any, Any, Result]], limit_s: float, awaited: str) -> Result:
        """Do some work in the players' thread. Raises PlayerError if it fails or takes longer than ``limit_s``."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), limit_s)
        except TimeoutError:
            raise PlayerError(
                f"{awaited} did not answer within {limit_s:.0f} s; try again, or seat another player"
            ) from None
        except EntenteError as error:
            raise PlayerError(str(error)) from error
        except Exception as error:  # a policy may be anyone's code
            raise PlayerError(f"{awaited} failed: {type(error).__name__}: {one_line(error, 200)}") from error

    def describe(self, name: str) -> SeatPlayer:
        """What a saved game says of a player; of an unknown one, its name. Reads the weights at the first call."""
        source = self.sources.get(name)
        if source is None:
            return SeatPlayer(one_line(name, 200), "program")
        if name not in self._descriptions:
            if source.run is not None:
                kind: Literal["bot", "checkpoint"] = "bot" if source.name.startswith("bot/") else "checkpoint"
                self._descriptions[name] = SeatPlayer(f"{source.run.absolute().name}/{source.name}", kind)
            else:
                self._descriptions[name] = describe_player(newest(source.name), self._remotes)
        return self._descriptions[name]

    def close(self) -> None:
        """Give up all decisions and close connections; a player that does not come to an end is left behind."""
        if not self._thread.is_alive():
            return

        async def end() -> None:
            this = asyncio.current_task()
            for task in asyncio.all_tasks():
                if task is not this:
                    task.cancel()
            for population in self._populations.values():
                await population.close()
            await self._remotes.close()

        with suppress(TimeoutError, RuntimeError, EntenteError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(CLOSING_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_TIMEOUT_S)

    async def _open(self, name: str) -> Policy:
        source = self.sources[name]
        if name not in self._opened and source.kind != "policy":
            self._opened[name] = open_policy(source.name, self._remotes)
        async with self._opening if name not in self._opened else nullcontext():
            if name not in self._opened:
                if source.run is not None:
                    self._opened[name] = await self._member(source.run, source.name)
                else:  # reading a model would keep the other players waiting
                    self._opened[name] = await asyncio.to_thread(open_policy, newest(source.name), self._remotes)
        return self._opened[name]

    async def _member(self, run: Path, member: str) -> Policy:
        """Open a run's whole population with its first member: its policies share one engine."""
        if run not in self._populations:
            ratings = await asyncio.to_thread(import_module, "cluster.evaluation.ratings.players")
            players: RatingPlayers = ratings.RatingPlayers(
                config_of(run), run, Population.load(run / "population.json")
            )
            await players.open([each.name for each in self.sources.values() if each.run == run])
            self._populations[run] = players
        return self._populations[run].by_id[member]
