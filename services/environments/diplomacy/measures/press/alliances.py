"""Which powers were allied in the years of a saved game, and what such alliances are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import clustered_mean
from services.environments.diplomacy.alliances import Standings, allies, updated_standings
from services.environments.diplomacy.measures.press.conduct import with_variation
from services.environments.diplomacy.measures.press.history import negotiated_phases
from services.environments.diplomacy.position import POWERS, Position

Alliance = tuple[str, ...]  # powers, in the order of ``POWERS``

# As players call them: Wikibooks' "Diplomacy/Alliances" and diplomaticon.com, "Naming the Alliances".
NAMES: Mapping[Alliance, str] = {
    ("AUSTRIA", "GERMANY"): "Anschluss",
    ("ENGLAND", "FRANCE"): "Leviathan",
    ("ENGLAND", "ITALY"): "Hadrian",
    ("ENGLAND", "RUSSIA"): "Anglonaut",
    ("ITALY", "RUSSIA"): "Wintergreen",
    ("RUSSIA", "TURKEY"): "Juggernaut",
    ("ENGLAND", "FRANCE", "GERMANY"): "Western Triple",
    ("FRANCE", "GERMANY", "RUSSIA"): "Sealion",
}


def called(alliance: Alliance) -> str:
    """The name of an alliance, or its powers."""
    return NAMES.get(alliance, "-".join(power.title() for power in alliance))


def alliances_by_year(document: Mapping[str, Any], name: str) -> dict[int, tuple[Alliance, ...]]:
    """The alliances at the end of each year: the largest sets of powers of which each two are allied.

    Two powers are allied as ``alliances.allies`` says: by their supports and attacks, and by kept promises of peace.
    Raises as ``negotiated_phases``.
    """
    standings: Standings = {}
    found: dict[int, tuple[Alliance, ...]] = {}
    for phase in negotiated_phases(document, name):
        standings = updated_standings(standings, phase.position, phase.orders, phase.verdicts)
        found[phase.position.year] = standing_alliances(standings, phase.position)
    return found


def standing_alliances(standings: Standings, position: Position) -> tuple[Alliance, ...]:
    """The alliances of the powers that are still there, as ``alliances_by_year`` finds them."""
    alive = [power for power in POWERS if position.units.get(power) or position.centers.get(power)]
    return _largest({power: frozenset(allies(standings, power)) for power in alive})


def _largest(allied: Mapping[str, frozenset[str]]) -> tuple[Alliance, ...]:
    """The sets of at least two powers in which all are allied and to which no other power could be added."""
    found: list[Alliance] = []
    for size in range(len(allied), 1, -1):
        for powers in combinations(allied, size):
            is_one = all(other in allied[power] for power, other in combinations(powers, 2))
            if is_one and not any(set(powers) <= set(larger) for larger in found):
                found.append(powers)
    return tuple(found)


def alliance_shares(games: Iterable[Mapping[int, Iterable[Alliance]]]) -> dict[Alliance, Estimate]:
    """The share of the years of all games in which each alliance stood and no power could be added to it.

    The most frequent come first; intervals are clustered by game.
    """
    years = [[set(each) for each in game.values()] for game in games]
    met = Counter(alliance for game in years for year in game for alliance in year)
    shares: dict[Alliance, Estimate] = {}
    for alliance, _ in met.most_common():
        estimate = with_variation(
            clustered_mean([[float(alliance in year) for year in game] for game in years], (0.0, 1.0))
        )
        assert estimate is not None
        shares[alliance] = estimate
    return shares
