"""The result of one whole game for ratings and matchmaking: the players, and who finished above whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring import sum_of_squares

if TYPE_CHECKING:
    from services.environments.diplomacy.game import Outcome


@dataclass(frozen=True, slots=True)
class GameScore:
    """A finished game of seven seats; one player may have several of them.

    Raises:
        ValueError: not exactly the seven powers, or an eliminated power that owns centres.
    """

    seats: Mapping[str, str]  # power -> player, e.g. "bot/dumbbot", "policy/v20", "learner"
    centers: Mapping[str, int]  # power -> supply centres at the end
    solo: str | None = None  # the power that won alone
    # Power -> phase or year of its elimination (anything that grows): for all powers without centres, or for none.
    eliminated: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, powers in (("seats", self.seats), ("centers", self.centers)):
            if set(powers) != set(POWERS):
                raise ValueError(f"{name} must name {', '.join(POWERS)}; got {', '.join(sorted(powers)) or 'none'}")
        fallen = {power for power, count in self.centers.items() if count == 0}
        if self.eliminated and set(self.eliminated) != fallen:
            raise ValueError(f"eliminated must say when {', '.join(sorted(fallen)) or 'no power'} fell, all or none")

    @classmethod
    def of(cls, seats: Mapping[str, str], outcome: Outcome, eliminated: Mapping[str, int] | None = None) -> GameScore:
        """The score of a finished game between ``seats``; raises as the constructor does."""
        solo = outcome.winners[0] if outcome.kind == "solo" else None
        return cls(dict(seats), dict(outcome.centers), solo, dict(eliminated or {}))

    def score(self, power: str) -> float:
        """Share of the sum of squares in [0, 1]: n² / Σ n²; a solo takes all."""
        return sum_of_squares(self.centers, self.solo)[power]

    def places(self) -> tuple[tuple[str, ...], ...]:
        """Powers from first to last; those in one tuple, in the order of POWERS, share a place.

        More centres are better; among powers without any, a later elimination is. After a solo, all others share the
        second place, as in the score.
        """
        if self.solo is not None:
            return (self.solo,), tuple(power for power in POWERS if power != self.solo)
        kinds: dict[tuple[int, int], list[str]] = {}
        for power in POWERS:
            kinds.setdefault((self.centers[power], self.eliminated.get(power, 0)), []).append(power)
        return tuple(tuple(kinds[kind]) for kind in sorted(kinds, reverse=True))

    @property
    def last_is_open(self) -> bool:
        """Whether the order within the last place is unknown: losers of a solo, eliminations without a date."""
        return self.solo is not None or (not self.eliminated and min(self.centers.values()) == 0)
