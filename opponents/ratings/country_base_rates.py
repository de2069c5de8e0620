"""What a country gets among equals: shares differ far more by country, and by how long a game is, than by skill."""

from __future__ import annotations

from collections.abc import Mapping

from services.environments.diplomacy.position import POWERS

# Last year of a game -> mean share of the sum of squares of each of seven DumbBots, in the order of POWERS: one set of
# 240 games, looked at after each of these years; 95 % intervals are 0.02 wide on either side or less.
MEASURED = {
    1901: (0.159, 0.141, 0.141, 0.125, 0.109, 0.217, 0.109),
    1902: (0.134, 0.156, 0.162, 0.074, 0.096, 0.205, 0.173),
    1903: (0.133, 0.168, 0.154, 0.071, 0.089, 0.167, 0.218),
    1905: (0.130, 0.172, 0.147, 0.066, 0.080, 0.136, 0.269),
    1907: (0.126, 0.158, 0.155, 0.067, 0.078, 0.123, 0.293),
    1910: (0.122, 0.152, 0.159, 0.068, 0.079, 0.106, 0.314),
    1920: (0.120, 0.150, 0.167, 0.061, 0.083, 0.087, 0.333),
}


def base_shares(until_year: int) -> Mapping[str, float]:
    """Share of the sum of squares by power, for games to the end of a year; between years measured on a line."""
    years = sorted(MEASURED)
    year = min(max(until_year, years[0]), years[-1])
    before = max(known for known in years if known <= year)
    after = min(known for known in years if known >= year)
    part = (year - before) / (after - before) if after > before else 0.0
    return {
        power: (1 - part) * first + part * last
        for power, first, last in zip(POWERS, MEASURED[before], MEASURED[after], strict=True)
    }
