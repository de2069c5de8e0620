"""The contract of a task for small networks: observations are vectors, actions are numbered or are vectors themselves.

A world (``environment.py``) deals in text for language models. A task deals in tensors, so that the same groups,
advantages and losses can be compared with other methods where a run takes minutes: in control problems, and in games
whose distance to equilibrium can be computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_core.errors import EntenteError
from grpo_core.types import BoolArray, FloatArray, KeyValue

Action = int | NDArray[np.float32]


class TaskError(EntenteError):
    """A task cannot be played: a package is missing, or there is no task of that name. The message is one line."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What a seat chooses: one of ``count`` actions or, with bounds, ``count`` numbers within them."""

    count: int
    low: tuple[float, ...] = ()  # one bound for each number; empty: the actions are numbered
    high: tuple[float, ...] = ()

    @property
    def are_numbered(self) -> bool:
        """Whether one of ``count`` actions is chosen."""
        return not self.low


class TensorGame(ABC):
    """One instance of a task, which plays episode after episode. It belongs to one thread."""

    @abstractmethod
    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """Begin an episode, and return the facts known at its start; equal seeds begin alike and go on alike."""

    @property
    @abstractmethod
    def to_act(self) -> tuple[str, ...]:
        """The seats that choose now, all at once; none once the episode is over."""

    @abstractmethod
    def observation(self, seat: str) -> FloatArray:
        """What a seat sees, shape (observation size,), a copy; it holds nothing that the seat must not know."""

    def legal(self, seat: str) -> BoolArray | None:  # noqa: ARG002
        """Which numbered actions are legal for a seat, shape (count,); None: all are."""
        return None

    @abstractmethod
    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Take the actions of the seats that act, and return what each seat earned; seats without are left out."""

    @property
    def was_cut_off(self) -> bool:
        """Whether the episode ended by a limit of steps, so that its last state has a worth of its own."""
        return False

    @property
    def figures(self) -> Mapping[str, float]:
        """More about the episode that is over than its return, by name; the same names for each episode of a task."""
        return {}

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Free what the instance holds; it is not used afterwards."""


class TensorTask(ABC):
    """What is played: its seats, the sizes of what they see and choose, and how well it can be played."""

    name: str
    seats: tuple[str, ...]  # as roles: a baseline never mixes them
    observation_size: int
    actions: Actions
    longest: int  # most steps of an episode
    random_return: float  # of actions at random, mean over seats
    measured_episodes: int = 20  # for one measurement
    goal: float  # a return at which the task counts as solved; scores are 0 at random and 1 there

    @abstractmethod
    def make(self) -> TensorGame:
        """Make an instance; raises TaskError if a package is missing."""

    def result(self, episode_return: float, facts: Mapping[str, KeyValue]) -> float:  # noqa: ARG002
        """What an episode counts as in tables: its return, unless the task scales it. ``facts`` are its start's."""
        return episode_return

    def score(self, result: float) -> float:
        """A result on a scale where random play is 0 and ``goal`` is 1."""
        return (result - self.random_return) / (self.goal - self.random_return)


def legal_or_first(game: TensorGame, seat: str, action: int) -> tuple[int, bool]:
    """An action's number, and whether it is legal; if it is not, the first that is, because nothing may stop a game.

    Other libraries sample actions without a mask when they check an environment.
    """
    legal = game.legal(seat)
    if legal is None or legal[action]:
        return action, True
    return int(np.flatnonzero(legal)[0]), False
