"""Chooses what to train next by measured pass rates.

A cell is a family at a difficulty. In a group of completions to one problem only differences teach: a problem that all
of them solve, or none, has zero variance and no gradient. The chance that a group is mixed is 1 - p^G - (1 - p)^G for
a pass rate p and G completions; it is taken over the posterior of p after the counts, Beta(1 + solved, 1 + failed), so
that a cell without any history has a value too: 1 - 2 / (G + 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from services.environments.word_problems.problem import DIFFICULTIES

Cell = tuple[str, int]  # family, difficulty


@dataclass(frozen=True, slots=True)
class Tries:
    """Completions of one cell: how many there were and how many were right."""

    tried: int = 0
    solved: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.solved <= self.tried:
            raise ValueError(f"{self.solved} solved of {self.tried} tried is no count")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Pass rates between which a cell is trained; a rate counts from ``least_tries`` completions on."""

    lower: float = 0.1
    upper: float = 0.9
    least_tries: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= 1 or self.least_tries < 1:
            raise ValueError(f"bounds need 0 <= lower < upper <= 1 and at least one try, not {self}")


def pass_rate(tries: Tries) -> float | None:
    """Return the share of right completions, None without any."""
    return tries.solved / tries.tried if tries.tried else None


def mixed_group_chance(tries: Tries, group_size: int) -> float:
    """Return the expected chance, from 0 to 1, that a group of ``group_size`` (>= 2) has right and wrong completions.

    E[p^G] under Beta(a, b) is the product of (a + i) / (a + b + i) for i from 0 to G - 1.
    """
    if group_size < 2:
        raise ValueError(f"a group has at least 2 completions, not {group_size}")
    right, wrong = 1 + tries.solved, 1 + tries.tried - tries.solved
    both = range(group_size)
    all_right = math.prod((right + i) / (right + wrong + i) for i in both)
    all_wrong = math.prod((wrong + i) / (right + wrong + i) for i in both)
    return max(0.0, 1 - all_right - all_wrong)


def open_cells(
    history: Mapping[Cell, Tries],
    families: Sequence[str],
    bounds: Bounds | None = None,
    hardest: int = DIFFICULTIES[-1],
) -> list[Cell]:
    """Return the cells to train now, in the order of ``families`` and difficulty; at least one a family.

    A family opens at difficulty 1. The next difficulty opens when the one before was tried often enough and is solved
    at ``lower`` or more. A cell closes while its measured rate is above ``upper`` or below ``lower``. Where no cell of
    a family would be left, the one whose rate is nearest to one half stays, and of equals the easier. There are no
    difficulties above ``hardest``.
    """
    bounds = bounds or Bounds()
    chosen: list[Cell] = []
    for family in families:
        reached = [DIFFICULTIES[0]]
        for easier, harder in pairwise(DIFFICULTIES[: hardest - DIFFICULTIES[0] + 1]):
            rate = _measured(history.get((family, easier), Tries()), bounds)
            if rate is None or rate < bounds.lower:
                break
            reached.append(harder)
        rates = {difficulty: _measured(history.get((family, difficulty), Tries()), bounds) for difficulty in reached}
        kept = [one for one, rate in rates.items() if rate is None or bounds.lower <= rate <= bounds.upper]
        if not kept:
            kept = [min(rates, key=lambda one: abs((rates[one] or 0.0) - 0.5))]
        chosen += [(family, difficulty) for difficulty in kept]
    return chosen


def weights(
    history: Mapping[Cell, Tries], cells: Sequence[Cell], group_size: int, floor: float = 0.1
) -> dict[Cell, float]:
    """Return how often to draw each cell: shares that sum to 1, empty without cells.

    A share follows the chance of a mixed group; ``floor``, from 0 to 1, is the part that all cells share equally, so
    that no open cell is forgotten.
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"the floor is from 0 to 1, not {floor}")
    chances = {cell: mixed_group_chance(history.get(cell, Tries()), group_size) for cell in cells}
    total = sum(chances.values())
    if total == 0:
        return {cell: 1 / len(chances) for cell in chances}
    return {cell: floor / len(chances) + (1 - floor) * chance / total for cell, chance in chances.items()}


def choose(shares: Mapping[Cell, float], draw: float) -> Cell:
    """Return the cell at ``draw``, from 0 up to but not including 1, along the shares in their order.

    Raises ValueError without a share above 0, or for another draw.
    """
    if not any(shares.values()) or not 0 <= draw < 1:
        raise ValueError("there must be a cell to choose, and a draw from 0 up to 1")
    left = draw * sum(shares.values())
    for cell, share in shares.items():
        left -= share
        if left < 0:
            return cell
    return [cell for cell, share in shares.items() if share > 0][-1]  # the sum was rounded


def _measured(tries: Tries, bounds: Bounds) -> float | None:
    return pass_rate(tries) if tries.tried >= bounds.least_tries else None
