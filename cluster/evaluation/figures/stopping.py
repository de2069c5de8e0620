"""When enough is known: looks at growing results that keep the intervals' 95 %."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.errors import RunError
from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.quantiles import LEVEL
from grpo_core.statistics.sequential import SequentialDesign
from grpo_core.types import Measure

LOOKS = 5


@dataclass(frozen=True, slots=True)
class Stopping:
    """Stop when the interval of one measure ends at most ``half_width`` from its middle, or excludes 0.

    Results are looked at after each fifth of the games. The intervals are repeated confidence intervals with O'Brien
    and Fleming's boundary, so they keep 95 % although one looks several times.
    """

    measure: str  # its name in rows
    half_width: float | None = None
    excludes_zero: bool = False  # of differences

    def design(self, games: int) -> SequentialDesign:
        """The looks at up to ``games`` games a role; fewer where there are not so many games."""
        return SequentialDesign(min(LOOKS, games))

    def found(self, measures: Sequence[Measure]) -> Measure:
        """The measure; RunError if there is none of that name."""
        for measure in measures:
            if measure.row_name == self.measure:
                return measure
        names = ", ".join(each.row_name for each in measures)
        raise RunError(f"no measure is called {self.measure[:80]!r}; there are {names}")


@dataclass(frozen=True, slots=True)
class Look:
    """How far a sequential evaluation went."""

    number: int
    looks: int
    level: float  # of its intervals, each on its own, that together with all other looks keep 0.95


FIXED = Look(1, 1, LEVEL)  # all games, looked at once


def look_after_look(
    rounds: int,
    stopping: Stopping | None,
    play: Callable[[int, int], None],
    estimates: Callable[[float], list[Estimate | None]],
) -> Look:
    """Play rounds until ``stopping`` is satisfied or all are played, and return the last look.

    ``play(first, end)`` plays these rounds; ``estimates(level)`` returns what has to be known well enough.
    """
    if stopping is None:
        play(0, rounds)
        return FIXED
    design = stopping.design(rounds)
    null = 0.0 if stopping.excludes_zero else None
    played, look = 0, FIXED
    for number, end in enumerate(design.schedule(rounds), start=1):
        play(played, end)
        played = end
        look = Look(number, design.looks, design.look_level(number))
        if all(design.is_finished(each, number, stopping.half_width, null) for each in estimates(look.level)):
            break
    return look
