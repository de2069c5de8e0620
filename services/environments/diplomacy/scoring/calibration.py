"""Measured constants: the strength of the bots, and the worth of each country, in points and in shares.

``tests/benchmarks/ratings/`` has the measurements of the points, over whole games to the end of 1905, and the command
that repeats them. Over games to the end of 1910 the greedy bot has some 50 points less, and the others differ by at
most 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.environments.diplomacy.position import POWERS

# What a country is worth relative to the mean of the seven, points.
COUNTRY_POINTS = dict(zip(POWERS, (-43.0, 19.2, 63.8, -107.0, -30.6, 39.9, 57.6), strict=True))

# The strength of each bot as each country, in the order of POWERS, without what the country is worth.
ANCHORS = {
    player: dict(zip(POWERS, points, strict=True))
    for player, points in {
        "bot/dumbbot": (1317.7, 1316.6, 1283.6, 1180.1, 1213.5, 1244.0, 1301.0),
        "bot/greedy": (1467.1, 1494.5, 1541.8, 1528.1, 1567.2, 1449.4, 1569.0),
        "bot/hold": (1082.5, 1064.8, 1008.8, 1118.6, 1083.9, 1213.1, 1011.1),
        "bot/random": (993.2, 991.4, 1038.1, 1026.4, 997.2, 963.1, 990.6),
    }.items()
}

# Last year of a game -> mean share of the sum of squares of each of seven DumbBots, in the order of POWERS: one set of
# 240 games, evaluated after each of these years; 95 % intervals are 0.02 wide on either side or less. Shares differ far
# more by country, and by the length of a game, than by skill.
BASE_SHARES = {
    1901: (0.159, 0.141, 0.141, 0.125, 0.109, 0.217, 0.109),
    1902: (0.134, 0.156, 0.162, 0.074, 0.096, 0.205, 0.173),
    1903: (0.133, 0.168, 0.154, 0.071, 0.089, 0.167, 0.218),
    1905: (0.130, 0.172, 0.147, 0.066, 0.080, 0.136, 0.269),
    1907: (0.126, 0.158, 0.155, 0.067, 0.078, 0.123, 0.293),
    1910: (0.122, 0.152, 0.159, 0.068, 0.079, 0.106, 0.314),
    1920: (0.120, 0.150, 0.167, 0.061, 0.083, 0.087, 0.333),
}


def base_shares(until_year: int) -> Mapping[str, float]:
    """Each country's share among equals in games to the end of a year, interpolated linearly by year."""
    years = sorted(BASE_SHARES)
    year = min(max(until_year, years[0]), years[-1])
    before = max(known for known in years if known <= year)
    after = min(known for known in years if known >= year)
    part = (year - before) / (after - before) if after > before else 0.0
    return {
        power: (1 - part) * first + part * last
        for power, first, last in zip(POWERS, BASE_SHARES[before], BASE_SHARES[after], strict=True)
    }
