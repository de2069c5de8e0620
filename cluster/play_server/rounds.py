"""The answers of the players in the present phase of a line, computed from the moment the phase begins.

Players decide at the same time as people and see nothing of their orders, so they need not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cluster.play_server.line import Line
from cluster.play_server.players import PlayerError, Players
from cluster.play_server.seats import PERSON

AnswerState = Literal["opening", "thinking", "ready", "failed"]


@dataclass(slots=True, eq=False)
class Answer:
    """One player's answer: its orders once it is ready, the reason once it has failed."""

    player: str
    state: AnswerState = "opening"
    orders: tuple[str, ...] = ()
    problem: str = ""
    task: asyncio.Task[None] | None = None


class Round:
    """The answers of one phase."""

    def __init__(self, phases: int) -> None:
        self.phases = phases  # of the line, by which a round is known to be that of the present phase
        self.answers: dict[str, Answer] = {}

    def ask(self, line: Line, players: Players, answered: Callable[[], None]) -> None:
        """Ask every player that has not been asked; forget answers of players that have left their seats.

        ``answered`` is called whenever the state of an answer has changed.
        """
        wanted = {power: line.seats[power] for power in line.to_move if line.seats[power] != PERSON}
        for power, answer in list(self.answers.items()):
            if wanted.get(power) != answer.player:
                self._drop(power)
        for power, player in wanted.items():
            if power not in self.answers:
                answer = self.answers[power] = Answer(player)
                answer.task = asyncio.create_task(_answer(answer, line, power, players, answered))

    def forget_failures(self) -> None:
        """Let ``ask`` ask those players again that have failed."""
        for power, answer in list(self.answers.items()):
            if answer.state == "failed":
                self._drop(power)

    def is_complete(self) -> bool:
        """Whether all players that were asked are ready."""
        return all(answer.state == "ready" for answer in self.answers.values())

    def orders(self) -> Mapping[str, tuple[str, ...]]:
        """The orders of the players that are ready."""
        return {power: answer.orders for power, answer in self.answers.items() if answer.state == "ready"}

    def cancel(self) -> None:
        """Give up all answers that are under way."""
        for power in list(self.answers):
            self._drop(power)

    def _drop(self, power: str) -> None:
        task = self.answers.pop(power).task
        if task is not None:
            task.cancel()


async def _answer(answer: Answer, line: Line, power: str, players: Players, answered: Callable[[], None]) -> None:
    try:
        await players.open(answer.player)
        answer.state = "thinking"
        answered()
        answer.orders = await players.decide(answer.player, line.present.position, power, line.decision_seed(power))
        answer.state = "ready"
    except PlayerError as error:
        answer.state, answer.problem = "failed", str(error)
    answered()
