"""How a batch's returns and advantages are distributed within each role: quantiles, and histograms that add up.

A histogram's bins have a width that is a power of two and begin at multiples of it, so that histograms of several
updates have a common refinement: two neighbours at an even place are one bin of twice the width. They add up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)  # numpy's linear interpolation; 0 and 1 are the extremes
MOST_BINS = 33  # of one update, all roles together
_FINEST = 2.0**-20  # of the largest absolute value: the width where all values are equal
NARROWEST = 2.0**-30  # width; smaller differences of returns mean nothing


def distributions(
    roles: Sequence[str], returns: NDArray[np.floating], advantages: NDArray[np.floating]
) -> dict[str, Any]:
    """Return the distribution of ``returns`` and ``advantages`` (samples,) by the samples' ``roles``, as JSON values.

    ``{"returns": {"width": w, "roles": {role: {...}}}, "advantages": ...}``; see ``by_role`` for the inner part.
    """
    return {"returns": by_role(roles, returns), "advantages": by_role(roles, advantages)}


def by_role(roles: Sequence[str], values: NDArray[np.floating]) -> dict[str, Any]:
    """Return each role's ``count``, ``mean``, ``std`` (population), ``mean_abs``, ``quantiles`` and histogram.

    Bin i of ``bins`` counts the values in ``[(first + i) * width, (first + i + 1) * width)``; the width is common to
    the roles. ``all`` has the same of the whole batch, without a histogram, which is the sum of the roles'. Values that
    are not finite are left out, and so is a role without others.
    """
    wide = np.asarray(values, np.float64)
    names = np.asarray(roles, dtype=object)
    finite = np.isfinite(wide)
    width = bin_width(wide[finite])
    found = {}
    for role in sorted(set(roles)):
        own = wide[finite & (names == role)]
        if own.size:
            found[role] = _summary(own) | _histogram(own, width)
    return {"width": width, "all": _summary(wide[finite]) if found else None, "roles": found}


def bin_width(values: NDArray[np.float64]) -> float:
    """Return the smallest power of two, from ``NARROWEST``, with which finite values have at most ``MOST_BINS`` bins.

    It is 1 without any values, and where all are 0.
    """
    if not values.size:
        return 1.0
    low, high = float(values.min()), float(values.max())
    least = max(abs(low), abs(high)) * _FINEST
    wanted = max((high - low) / (MOST_BINS - 1), least)
    if wanted <= 0:
        return 1.0
    width = max(NARROWEST, 2.0 ** math.ceil(math.log2(wanted)))
    # The difference may have been rounded down: from just below 0 to 32 widths it is one bin more.
    return width if math.floor(high / width) - math.floor(low / width) < MOST_BINS else 2 * width


def _summary(own: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "count": int(own.size),
        "mean": _short(float(own.mean())),
        "std": _short(float(own.std())),
        "mean_abs": _short(float(np.abs(own).mean())),
        "quantiles": [_short(value) for value in np.quantile(own, QUANTILES).tolist()],
    }


def _histogram(own: NDArray[np.float64], width: float) -> dict[str, Any]:
    places = np.floor(own / width).astype(np.int64)
    first = int(places.min())
    return {"first": first, "bins": np.bincount(places - first).tolist()}


def _short(value: float) -> float:
    """Round to six digits, which suffice for pictures."""
    return float(f"{value:.6g}")
