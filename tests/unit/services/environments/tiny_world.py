"""A world of three seats A, B and C, made up to test what all worlds share: each writes a word, and "high" scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_core.types import KeyValue, Measure
from services.environments.environment import World
from services.environments.language import Language
from services.environments.playing import Bot, Game, Result, Slot, Standing, Step

SEATS = ("A", "B", "C")


class TinyGame(Game):
    def __init__(self, start: str) -> None:
        self.start, self.scores = start, dict.fromkeys(SEATS, 0.0)

    @property
    def is_done(self) -> bool:
        return any(self.scores.values())

    def to_act(self) -> Sequence[str]:
        return SEATS

    def view(self, seat: str) -> str:
        return self.start

    def start_facts(self, seat: str) -> Mapping[str, KeyValue]:
        return {"colour": self.start}

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        self.scores = {seat: 2.0 if tuple(written) == ("high",) else 1.0 for seat, written in actions.items()}
        return Step({})

    def result(self) -> Result:
        total, outcomes = (
            sum(self.scores.values()),
            {s: {"points": own, "second": 0.0} for s, own in self.scores.items()},
        )
        shares = {seat: own / total for seat, own in self.scores.items()}
        return Result(outcomes, outcomes, Standing(shares, (SEATS,)))


class TinyLanguage(Language):
    example, word_pattern = "high", r"\S+|\n"

    def words(self) -> Sequence[str]:
        return (*SEATS, "red", "blue", "high", "low", "\n")

    def prompt(self, view: str, seat: str) -> str:
        return f"{seat} {view}"

    def slots(self, view: str, seat: str) -> tuple[Slot, ...]:
        return (Slot(("high", "low"), (None, None)),)


class High(Bot):
    def actions(self, view: str, seat: str, seed: int) -> tuple[str, ...]:
        return ("high",)


class Tiny(World):
    name, role_name, roles = "tiny", "chair", SEATS
    measures = (
        Measure("points", "points", "Points", "mean points", "mean", 0.0, 2.0, column="mean_points"),
        Measure("second_rate", "second", "Second", "share of second places", "share"),
    )
    episode_facts, turn_facts = ("colour",), ("mood",)
    bots = {"random": High, "high": High}  # noqa: RUF012
    language = TinyLanguage()

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> TinyGame:
        return TinyGame(start)

    def draw_start(self, role: str, seed: int) -> str:
        return ("red", "blue")[seed % 2]


class NoWorld:
    """No subclass of World."""


class Half(World):
    """Lacks the methods that every world defines, and its language."""

    name, role_name, measures = "half", "chair", Tiny.measures


class Nameless(Tiny):
    """All methods are there, and no name."""

    name = ""
