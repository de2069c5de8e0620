"""What a country gets among equals: shares differ far more by country than by skill."""

from __future__ import annotations

from collections.abc import Mapping

# Mean share of the sum of squares of each of seven DumbBots, in 120 games to the end of 1910.
BASE_SHARES: Mapping[str, float] = {
    "AUSTRIA": 0.105,
    "ENGLAND": 0.164,
    "FRANCE": 0.141,
    "GERMANY": 0.066,
    "ITALY": 0.076,
    "RUSSIA": 0.086,
    "TURKEY": 0.361,
}
