"""What scripted players and countries are worth, in points, as measured over whole games to the end of 1905.

``tests/benchmarks/ratings/`` has the measurement and the command that repeats it. Over games to the end of 1910 the
greedy bot has some 50 points less, and every other one what it has here within 10.
"""

from __future__ import annotations

from services.environments.diplomacy.position import POWERS

# What a country is worth beside the mean of the seven.
COUNTRY_POINTS = dict(zip(POWERS, (-39.8, 9.8, 62.5, -101.0, -28.3, 38.2, 58.5), strict=True))

# How strong each bot is as each country, in the order of POWERS; what the country is worth is no part of it.
ANCHORS = {
    player: dict(zip(POWERS, points, strict=True))
    for player, points in {
        "bot/dumbbot": (1316.3, 1316.6, 1280.9, 1175.0, 1206.0, 1235.2, 1296.1),
        "bot/greedy": (1464.7, 1472.4, 1534.3, 1523.4, 1558.3, 1443.6, 1553.7),
        "bot/hold": (1078.3, 1074.1, 1012.6, 1114.2, 1094.3, 1205.7, 1012.1),
        "bot/random": (988.9, 990.5, 1031.8, 1028.6, 990.8, 972.3, 997.1),
    }.items()
}

# Shares of the sum of squares grow with exp(SHARE_SLOPE * strength): a strong power need not come first to have one.
SHARE_SLOPE = 0.78
