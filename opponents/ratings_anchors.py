"""What scripted players and countries are worth, in points, as measured over whole games to the end of 1905.

``tests/benchmarks/ratings/calibration.json`` has the measurement and says how to repeat it.
"""

from __future__ import annotations

from services.environments.diplomacy.position import POWERS

# What a country is worth beside the mean of the seven.
COUNTRY_POINTS = dict(zip(POWERS, (-40.0, 10.0, 60.0, -105.0, -25.0, 45.0, 55.0), strict=True))

# How strong each bot is as each country, which the country's own worth is no part of.
ANCHORS = {
    "bot/random": dict.fromkeys(POWERS, 1000.0),
    "bot/hold": dict.fromkeys(POWERS, 1075.0),
    "bot/dumbbot": dict.fromkeys(POWERS, 1250.0),
    "bot/greedy": dict.fromkeys(POWERS, 1490.0),
}

# Shares of the sum of squares grow with exp(SHARE_SLOPE * strength): a strong power need not come first to have one.
SHARE_SLOPE = 0.78
