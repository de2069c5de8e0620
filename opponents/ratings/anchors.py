"""What scripted players and countries are worth, in points, as measured over whole games to the end of 1905.

``tests/benchmarks/ratings/`` has the measurement and the command that repeats it. Over games to the end of 1910 the
greedy bot has some 50 points less, and every other one what it has here within 10.
"""

from __future__ import annotations

from services.environments.diplomacy.position import POWERS

# What a country is worth beside the mean of the seven.
COUNTRY_POINTS = dict(zip(POWERS, (-43.0, 19.2, 63.8, -107.0, -30.6, 39.9, 57.6), strict=True))

# How strong each bot is as each country, in the order of POWERS; what the country is worth is no part of it.
ANCHORS = {
    player: dict(zip(POWERS, points, strict=True))
    for player, points in {
        "bot/dumbbot": (1317.7, 1316.6, 1283.6, 1180.1, 1213.5, 1244.0, 1301.0),
        "bot/greedy": (1467.1, 1494.5, 1541.8, 1528.1, 1567.2, 1449.4, 1569.0),
        "bot/hold": (1082.5, 1064.8, 1008.8, 1118.6, 1083.9, 1213.1, 1011.1),
        "bot/random": (993.2, 991.4, 1038.1, 1026.4, 997.2, 963.1, 990.6),
    }.items()
}

# Shares of the sum of squares grow with exp(SHARE_SLOPE * strength): a strong power need not come first to have one.
SHARE_SLOPE = 0.71
