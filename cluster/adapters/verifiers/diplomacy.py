"""Diplomacy as a ``verifiers`` environment: seven seats, each with a model of its own where one is named.

A task is a game's seed and the country whose game it is. ``played`` says who of the seven is a model: all of them, or
that country alone among bots. Each seat's trace has its own reward, and the figures of its game as metrics.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field

from cluster.adapters.text_game import TextGame, open_world
from services.environments.diplomacy.position import POWERS
from services.environments.environment import World


class DiplomacyConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """Which games are played."""

    game: dict[str, Any] = Field(default_factory=lambda: {"until_year": 1905})
    """Values of the section [game] of our configs."""
    played: Literal["all", "one"] = "all"
    """Whether models play all seven seats or one, the countries taking turns."""
    others: str = "random"
    """The bot in the seats that no model plays."""
    first_seed: int = Field(0, ge=0)
    """The seed of the first game; the others follow. Evaluate from another one than you train from."""


class DiplomacyData(vf.TaskData):  # type: ignore[misc]
    """A game."""

    seed: int
    country: str
    game: dict[str, Any]
    played: Literal["all", "one"]
    others: str


class DiplomacyTask(vf.Task[DiplomacyData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    """A game; it has no reference answer, and the environment pays its rewards."""


class DiplomacyTaskset(vf.Taskset[DiplomacyTask, DiplomacyConfig]):  # type: ignore[misc]
    """Games without end, by seed."""

    INFINITE = True

    def load(self) -> Iterator[DiplomacyTask]:
        """Game after game, the countries taking turns."""
        config = self.config
        open_world("diplomacy", config.game)  # a wrong value is an error before the first game
        for seed in itertools.count(config.first_seed):
            country = POWERS[seed % len(POWERS)]
            yield DiplomacyTask(
                DiplomacyData(
                    name=f"{country}#{seed}",
                    seed=seed,
                    country=country,
                    game=config.game,
                    played=config.played,
                    others=config.others,
                ),
                config.task,
            )


def _seat() -> vf.AgentConfig:
    return vf.AgentConfig(runtime=vf.SubprocessConfig())  # nothing is run in it: no sandbox is needed


class DiplomacyEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """A seat for each power: ``--env.france.model`` is who plays France."""

    austria: vf.AgentConfig = _seat()
    england: vf.AgentConfig = _seat()
    france: vf.AgentConfig = _seat()
    germany: vf.AgentConfig = _seat()
    italy: vf.AgentConfig = _seat()
    russia: vf.AgentConfig = _seat()
    turkey: vf.AgentConfig = _seat()
    max_concurrent_agents: int | None = Field(7, ge=1)


class DiplomacyEnv(vf.Env[DiplomacyEnvConfig]):  # type: ignore[misc]
    """Plays whole games: in each step all seats with a decision are asked at once."""

    async def run(self, task: Any, agents: Any) -> None:
        """One game. A seat whose run was stopped, by a limit of its turns for instance, writes nothing from then on.

        Raises RuntimeError if a seat's run failed, by an endpoint without an answer for instance: no seat is paid for
        what it could not say, so the game is abandoned.
        """
        data = task.data
        world: World = open_world("diplomacy", data.game)
        seats = POWERS if data.played == "all" else (data.country,)
        game = TextGame(world, data.country, data.seed, seats=seats, others=data.others)
        async with AsyncExitStack() as table:
            open_seats = {
                seat: await table.enter_async_context(getattr(agents, seat.lower()).interaction(task)) for seat in seats
            }
            traces = {seat: interaction.trace for seat, interaction in open_seats.items()}
            defects = dict.fromkeys(seats, 0)

            async def ask(seat: str) -> str:
                if seat not in open_seats:
                    return ""
                segment = await open_seats[seat].turn(game.messages(seat))
                if segment.terminated:
                    del open_seats[seat]
                    return ""
                return str(segment.last_reply)

            while waiting := game.waiting:
                texts = await asyncio.gather(*map(ask, waiting))
                # Not in ask: the others would still be answering while their seats are closed.
                for seat, trace in traces.items():
                    if trace.errors:
                        raise RuntimeError(f"the run of {seat} failed: {trace.errors[-1].message}")
                for seat, text in zip(waiting, texts, strict=True):
                    defects[seat] += len(game.answer(seat, text))
        for seat, trace in traces.items():
            trace.record_reward("game", game.rewards[seat])
            figures = {name: value for name, value in game.outcomes[seat].items() if "/" not in name}  # without pairs
            trace.record_metrics({**figures, "defects": float(defects[seat])})
