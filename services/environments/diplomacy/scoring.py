"""Scores of a finished game from its final supply centres (power -> count), as power -> share.

Shares sum to 1 (to 0 without any centre). ``solo`` names the power that won alone, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Centers = Mapping[str, int]
Shares = dict[str, float]


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
