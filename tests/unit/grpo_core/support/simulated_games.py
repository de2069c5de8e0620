"""Games with a known truth: seven countries' final centres, integers with sum 34 a table, many of them zero.

The countries' even chances are those of seven DumbBots to the end of 1910 (mean centres). A table's shares are drawn
from a Dirichlet distribution and its 34 centres from those shares, so that every mean and rate has a closed form. With
this concentration 3 to 30% of a country's games end at 0, and 0.7 to 7.8% as a solo of at least 18 centres.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

COUNTRIES = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
CENTERS_OF_A_TABLE, SOLO = 34, 18
_MEANS = np.array([3.41, 4.34, 4.07, 2.46, 3.02, 2.74, 6.59])
_CONCENTRATION = 7.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def chances(strengths: Floats) -> Floats:
    """Dirichlet parameters (..., 7) of tables with players of these strengths (..., 7); 1 is a DumbBot's."""
    shares = _MEANS * strengths
    return _CONCENTRATION * shares / shares.sum(-1, keepdims=True)


def play_tables(strengths: Floats, rng: np.random.Generator) -> Ints:
    """Final centres (..., 7) of one table each."""
    shares = rng.gamma(chances(strengths))
    return rng.multinomial(CENTERS_OF_A_TABLE, shares / shares.sum(-1, keepdims=True))


def one_against_six(strength: float) -> tuple[Floats, Floats]:
    """The parameters (7,) of the beta distribution of one player's share, as each country among six of strength 1."""
    alone = np.ones((7, 7)) + np.diag([strength - 1] * 7)
    own = np.diagonal(chances(alone)).copy()
    return own, _CONCENTRATION - own


def play_alone(strength: float, games: Sequence[int], repetitions: int, rng: np.random.Generator) -> list[Ints]:
    """One player's centres in each country, (repetitions, games), against six of strength 1."""
    return [
        rng.binomial(CENTERS_OF_A_TABLE, rng.beta(a, b, (repetitions, count)))
        for a, b, count in zip(*one_against_six(strength), games, strict=True)
    ]


def play_pairs(
    strength: float, shared: float, games: Sequence[int], repetitions: int, rng: np.random.Generator
) -> tuple[list[Ints], list[Ints]]:
    """Centres of a player of strength 1, and of one of ``strength`` at the same tables, as of ``play_alone``.

    At a share of the tables both get the same; at the others the second one's are independent.
    """
    before = play_alone(1.0, games, repetitions, rng)
    alone = play_alone(strength, games, repetitions, rng)
    after = [np.where(rng.random(old.shape) < shared, old, new) for old, new in zip(before, alone, strict=True)]
    return before, after


def true_mean(strength: float) -> float:
    """Mean centres of ``play_alone`` over countries."""
    own, others = one_against_six(strength)
    return float((CENTERS_OF_A_TABLE * own / (own + others)).mean())


def true_solo_rates(strength: float) -> Floats:
    """Rate (7,) of solos of ``play_alone`` in each country."""
    rates: Floats = stats.betabinom.sf(SOLO - 1, CENTERS_OF_A_TABLE, *one_against_six(strength))
    return rates


def true_improvement(strength: float, shared: float = 0.0) -> float:
    """Probability that a game of this strength has more centres than one of strength 1, ties half, over countries.

    For pairs with the ``shared`` ties of ``play_pairs``, that at the same table.
    """
    centers = np.arange(CENTERS_OF_A_TABLE + 1)
    found = []
    for one, other, own, rest in zip(*one_against_six(1.0), *one_against_six(strength), strict=True):
        before = stats.betabinom.pmf(centers, CENTERS_OF_A_TABLE, one, other)
        after = stats.betabinom.pmf(centers, CENTERS_OF_A_TABLE, own, rest)
        found.append((np.cumsum(before) - before / 2) @ after)
    return float(shared / 2 + (1 - shared) * np.mean(found))


def seatings(players: int) -> Ints:
    """All ways (ways, 7) to seat this many players, as evenly as seven seats allow; who has more seats is fixed."""
    seats = [seat % players for seat in range(7)]
    return np.array(sorted(set(itertools.permutations(seats))))


def true_mixed(strengths: Sequence[float], player: int) -> tuple[float, float]:
    """Mean centres and solo rate of a player over countries of equal weight, where every seating is as likely."""
    ways = seatings(len(strengths))
    own = chances(np.asarray(strengths)[ways])
    solos = stats.betabinom.sf(SOLO - 1, CENTERS_OF_A_TABLE, own, _CONCENTRATION - own)
    means = CENTERS_OF_A_TABLE * own / _CONCENTRATION
    is_own = ways == player
    return tuple(float(np.mean([value[is_own[:, seat], seat].mean() for seat in range(7)])) for value in (means, solos))
