"""Word problems as a ``verifiers`` taskset: a question in one of several instructions, one answer, a checked number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from cluster.adapters.text_game import TextGame, open_world


class WordProblemConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """Which problems are asked."""

    game: dict[str, Any] = Field(default_factory=dict)
    """Values of the section [game] of our configs; follow_ups stays 0."""
    first_seed: int = Field(0, ge=0)
    """The seed of the first problem; the others follow. Evaluate from another one than you train from."""


class WordProblemData(vf.TaskData):  # type: ignore[misc]
    """A problem, by the seed that draws it."""

    seed: int
    variant: str
    game: dict[str, Any]


class WordProblemTask(vf.Task[WordProblemData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    """Scored by the world: no model judges."""

    def played(self, reply: str) -> TextGame:
        """The conversation that this reply ends."""
        game = _game(self.data.game, self.data.variant, self.data.seed)
        game.answer(self.data.variant, reply)
        return game

    @vf.reward  # type: ignore[untyped-decorator]
    async def right(self, trace: Any) -> float:
        """The reward of the world."""
        return self.played(trace.last_reply).rewards[self.data.variant]

    @vf.metric  # type: ignore[untyped-decorator]
    async def figures(self, trace: Any) -> dict[str, float]:
        """The figures by which the world is measured."""
        return dict(self.played(trace.last_reply).outcomes[self.data.variant])

    async def validate(self, runtime: Any) -> bool:  # noqa: ARG002
        """Whether the worked solution is right, by the same score."""
        game = _game(self.data.game, self.data.variant, self.data.seed)
        (solution,) = game.world.make_teacher(game.world.imitation_settings(), game.game).actions(None, "", 0)
        return bool(self.played(solution).outcomes[self.data.variant]["exact_match"] == 1.0)


class WordProblemTaskset(vf.Taskset[WordProblemTask, WordProblemConfig]):  # type: ignore[misc]
    """Problems without end, the instructions taking turns."""

    INFINITE = True

    def load(self) -> Iterator[WordProblemTask]:
        """Problem after problem, by seed. Raises ValueError for follow-ups, which are no single turn."""
        config = self.config
        world = open_world("word_problems", config.game)
        if world.settings.follow_ups:
            raise ValueError("game.follow_ups: a task here is one question; set it to 0")
        for seed in itertools.count(config.first_seed):
            variant = world.roles[seed % len(world.roles)]
            messages = _game(config.game, variant, seed).messages(variant)
            system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
            yield WordProblemTask(
                WordProblemData(
                    name=f"{variant}#{seed}",
                    prompt=[vf.UserMessage(content=each["content"]) for each in messages if each["role"] == "user"],
                    system_prompt=system or None,
                    seed=seed,
                    variant=variant,
                    game=config.game,
                ),
                config.task,
            )


def _game(settings: dict[str, Any], variant: str, seed: int) -> TextGame:
    return TextGame(open_world("word_problems", settings), variant, seed)
