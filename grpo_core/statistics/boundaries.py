"""Critical values for looking several times at growing data. Pure functions.

At look k of K the data have k/K of the information. The standardised estimates then have the joint distribution of
``S_k / sqrt(k)``, with S_k the sum of k independent standard normal increments (Jennison and Turnbull, Group Sequential
Methods, 2000, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Boundary = Literal["pocock", "obrien_fleming"]
MOST_LOOKS = 20
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def crossing_probability(critical_values: Sequence[float]) -> float:
    """Return the probability that a standardised estimate is beyond +- its critical value at one of the looks at least.

    The true difference is 0. Densities of the sums that have crossed nowhere yet are integrated from look to look
    (Armitage, McPherson and Rowe, JRSS A 132, 1969).
    """
    crossed, points, mass = 0.0, np.zeros(1), np.ones(1)
    for look, critical in enumerate(critical_values, start=1):
        bound = critical * math.sqrt(look)
        crossed += float(mass @ (_below(-bound - points) + _below(points - bound)))
        following = bound * _NODES
        steps = following[:, None] - points[None, :]
        density = np.exp(-0.5 * np.square(steps)) @ mass / math.sqrt(2 * math.pi)
        points, mass = following, bound * _WEIGHTS * density
    return crossed


@cache
def critical_values(looks: int, boundary: Boundary, level: float) -> tuple[float, ...]:
    """Return the critical value of each of ``looks`` equally spaced looks; together they are crossed as ``1 - level``.

    Pocock's (Biometrika 64, 1977) are all equal. Those of O'Brien and Fleming (Biometrics 35, 1979) fall with
    ``sqrt(K / k)``: large at first, and at the last look little above that of a single one.

    Raises ValueError for a level outside (0, 1), looks outside 1 to ``MOST_LOOKS`` and other boundaries.
    """
    if not 1 <= looks <= MOST_LOOKS:
        raise ValueError(f"the number of looks lies between 1 and {MOST_LOOKS}, not at {looks}")
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval lies between 0 and 1, not at {level}")
    if boundary == "pocock":
        shape = [1.0] * looks
    elif boundary == "obrien_fleming":
        shape = [math.sqrt(looks / look) for look in range(1, looks + 1)]
    else:
        raise ValueError(f"there is no boundary {boundary!r}, only 'pocock' and 'obrien_fleming'")
    from scipy.optimize import brentq  # type: ignore[import-untyped]  # slow to import

    constant = brentq(
        lambda factor: crossing_probability([factor * each for each in shape]) - (1 - level), 1e-3, 40.0, xtol=1e-10
    )
    return tuple(float(constant) * each for each in shape)


def _below(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal distribution function."""
    from scipy.special import ndtr  # type: ignore[import-untyped]  # slow to import

    found: NDArray[np.float64] = ndtr(values)
    return found
