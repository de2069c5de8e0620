"""A game as all floors know it: what seats see, write and earn, and who plays them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from grpo_core.types import KeyValue, Turn

View = Any  # what one seat sees of a game: plain data that only its world reads, equal for equal situations
Parts = Mapping[str, float]  # figures by name, such as reward parts before their weights


# Reward parts for talk, which are not the game's: they come of the probabilities that policies give to actions.
LISTENING, SPEAKING = "listening", "speaking"
TALK_PARTS = (LISTENING, SPEAKING)
TRUNCATED = "truncated"  # among a turn's defects: its completion was cut off


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing to write; alternative i excludes later ones with the same ``claims[i]`` (None: excludes none)."""

    alternatives: tuple[str, ...]
    claims: tuple[str | None, ...]
    note: str = ""  # written before it, without a choice


@dataclass(frozen=True, slots=True)
class Defect:
    """What is wrong with a part of an answer: the text as written, and the reason in one word."""

    text: str
    reason: str  # "repaired": it was not canonical, and its only possible reading is used


@dataclass(frozen=True, slots=True)
class Answer:
    """What a text means: actions that the game takes, and all defects, repairs included."""

    actions: tuple[str, ...]
    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a player writes; a trainable policy adds the ``turn`` that produced it.

    ``defects`` says what was wrong in the text that ``actions`` was read from; for actions that were no text it is ().
    """

    actions: tuple[str, ...]
    turn: Turn | None = None
    defects: tuple[Defect, ...] = ()

    @property
    def orders(self) -> tuple[str, ...]:
        """``actions``, by Diplomacy's word for them."""
        return self.actions


class Policy(Protocol):
    """Acts in any seat of any game. One instance may play many games at once and keeps no state of them."""

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """What ``seat`` writes; with fixed weights the same view, seat and seed give the same answer."""
        ...


@runtime_checkable
class SamplingPolicy(Policy, Protocol):
    """A policy that samples its answers."""

    def at(self, temperature: float) -> Policy:
        """The same policy at another temperature; 0 is greedy."""
        ...


@runtime_checkable
class PromptedPolicy(SamplingPolicy, Protocol):
    """A policy that is asked by prompts, which it can show."""

    def at(self, temperature: float) -> PromptedPolicy:
        """The same policy at another temperature; 0 is greedy."""
        ...

    def read(self, view: View, seat: str) -> Any:
        """The prompt of ``act`` and its parts."""
        ...


class Bot(ABC):
    """A scripted player: the same view, seat and seed give the same actions."""

    is_slow: bool = False  # whether a decision may take a second

    @abstractmethod
    def actions(self, view: View, seat: str, seed: int) -> tuple[str, ...]:
        """What ``seat`` writes; () if it has nothing to decide."""

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Return ``actions`` as a ``Decision``; never suspends."""
        return Decision(self.actions(view, seat, seed))


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of a game brought."""

    parts: Mapping[str, Parts]  # seat -> reward parts that it earned; seats without any may be left out
    defects: int = 0  # actions of all seats that could not be used


@dataclass(frozen=True, slots=True)
class Standing:
    """Who finished where in a game of several seats, for ratings and matchmaking."""

    shares: Mapping[str, float]  # seat -> its share of the whole score, 0 to 1
    places: tuple[tuple[str, ...], ...]  # seats from first to last; those in one tuple share a place
    last_is_open: bool = False  # whether the order within the last place is unknown


@dataclass(frozen=True, slots=True)
class Result:
    """How a game ended."""

    outcomes: Mapping[str, Parts]  # seat -> figures of its game, those of the world's measures among them
    parts: Mapping[str, Parts] = field(default_factory=dict)  # seat -> reward parts that are paid at the end
    standing: Standing | None = None  # None: a game of one seat
    notes: Mapping[str, str] = field(default_factory=dict)  # seat -> a text that evaluations compare: its final answer


class Game(ABC):
    """One game in progress."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the game has ended."""

    @property
    def phase(self) -> str:
        """The short name of the present step, which turns carry."""
        return ""

    @property
    def takes_time(self) -> bool:
        """Whether the present step counts for the discount; one in which players only talk does not."""
        return True

    @abstractmethod
    def to_act(self) -> Sequence[str]:
        """The seats that decide in this step, all at once, in a fixed order; at least one until the game ends."""

    @abstractmethod
    def view(self, seat: str) -> View:
        """What a seat sees, also one that waits. It holds nothing that the seat must not know."""

    def start_facts(self, seat: str) -> Mapping[str, KeyValue]:  # noqa: ARG002
        """The facts ``World.episode_facts`` of a seat, asked before the first step."""
        return {}

    def facts(self, seat: str) -> Mapping[str, KeyValue]:  # noqa: ARG002
        """The facts ``World.turn_facts`` of a seat's decision, known before it."""
        return {}

    def heard_of_partners(self, seat: str) -> Mapping[str, tuple[View, View]]:  # noqa: ARG002
        """Partner -> what ``seat`` knows of the view from which it decides now, with the talk between them and without.

        For the reward part ``listening``; none where no player talks.
        """
        return {}

    def had_it_not_spoken(self, seat: str) -> Mapping[str, View]:  # noqa: ARG002
        """Partner -> what it would see now if ``seat`` had told it nothing since the last step that takes time.

        For the reward part ``speaking``; only partners that it told something.
        """
        return {}

    def note_defects(self, seat: str, defects: Sequence[Defect]) -> None:  # noqa: B027  # most games do not count them
        """Take note of what was wrong in a seat's text, before the step that plays the rest; it changes no game."""

    @abstractmethod
    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Take what the seats wrote, and go on to the next step. Actions that are not legal become defects."""

    @abstractmethod
    def result(self) -> Result:
        """How the game ended."""


def weigh(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the scalar reward: Σ weight x part; parts without a weight count 0."""
    return sum(weights[name] * value for name, value in parts.items() if name in weights)
