"""Scores of a finished game from its final supply centres (power -> count), as power -> share.

Shares sum to 1 (to 0 without any centre). ``solo`` names the power that won alone, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Centers = Mapping[str, int]
Shares = dict[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a game ended. ``winners`` is one power after a solo, those who share a draw, else empty."""

    centers: Mapping[str, int]
    kind: Literal["solo", "draw", "year_limit"]
    winners: tuple[str, ...]
    final_year: int
    phases: int  # phases in its history: those played, and that of a draw by agreement

    @property
    def solo(self) -> str | None:
        """The power that won alone."""
        return self.winners[0] if self.kind == "solo" else None


def draw_size(centers: Centers, solo: str | None = None, drawn: Collection[str] | None = None) -> Shares:
    """Return 1 for a solo; else equal shares of ``drawn``, the powers of an agreed draw, by default all survivors."""
    if solo is not None:
        return _all_to(solo, centers)
    sharers = [power for power, count in centers.items() if (power in drawn if drawn else count > 0)]
    return {power: 1 / len(sharers) if power in sharers else 0.0 for power in centers}


def sum_of_squares(centers: Centers, solo: str | None = None) -> Shares:
    """Return n² / Σ n²; a solo takes all."""
    if solo is not None:
        return _all_to(solo, centers)
    return proportional({power: count**2 for power, count in centers.items()})


def proportional(centers: Centers) -> Shares:
    """Return n / Σ n, also after a solo."""
    total = sum(centers.values())
    return {power: count / total if total else 0.0 for power, count in centers.items()}


def _all_to(winner: str, centers: Centers) -> Shares:
    return {power: float(power == winner) for power in centers}


def places(
    centers: Centers, solo: str | None = None, eliminated: Mapping[str, int] | None = None
) -> tuple[tuple[str, ...], ...]:
    """Return the powers from first to last; those in one tuple, in the order of ``centers``, share a place.

    More centres are better; among powers without any, a later elimination is (``eliminated``: power -> phase or year).
    After a solo, all others share the second place, as in the shares.
    """
    if solo is not None:
        return (solo,), tuple(power for power in centers if power != solo)
    fell = eliminated or {}
    kinds: dict[tuple[int, int], list[str]] = {}
    for power, count in centers.items():
        kinds.setdefault((count, fell.get(power, 0)), []).append(power)
    return tuple(tuple(kinds[kind]) for kind in sorted(kinds, reverse=True))
