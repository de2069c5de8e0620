"""How powers treated one another in a saved game, and how players treat one another over many games."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import clustered_mean
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.measures.press.history import negotiated_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.conduct import Conduct, ConductLog, Pair


def conduct(document: Mapping[str, Any], name: str) -> dict[Pair, Conduct]:
    """The conduct of every power to every other one in a saved game; raises as ``negotiated_phases``."""
    log = ConductLog()
    for phase in negotiated_phases(document, name):
        log.add(phase.position, phase.orders, phase.results, phase.letters, phase.verdicts)
    return log.pairs


@dataclass(frozen=True, slots=True)
class ConductRates:
    """One player's conduct to another one; intervals hold between games. None where nothing was counted."""

    games: int
    support_rate: Estimate | None  # supports a movement phase and power
    effective_support_rate: Estimate | None
    attack_rate: Estimate | None
    honesty: Estimate | None  # share of its tested promises that it kept


def conduct_rates(games: Iterable[tuple[Mapping[str, str], Mapping[Pair, Conduct]]]) -> dict[Pair, ConductRates]:
    """The rates by pair of players over games, each given as the players by seat and ``conduct``."""
    clusters: defaultdict[Pair, list[list[Conduct]]] = defaultdict(list)
    for players, found in games:
        by_players: defaultdict[Pair, list[Conduct]] = defaultdict(list)
        for (power, other), own in found.items():
            if power in players and other in players:
                by_players[players[power], players[other]].append(own)
        for pair, each in by_players.items():
            clusters[pair].append(each)
    return {pair: _rates(each) for pair, each in sorted(clusters.items())}


def saved_conduct(document: Mapping[str, Any], name: str) -> tuple[Mapping[str, str], dict[Pair, Conduct]]:
    """A saved game for ``conduct_rates``: who sat where, by power where the file does not say, and the conduct."""
    players = seated_players(document) or {power: power for power in POWERS}
    return players, conduct(document, name)


def _rates(games: list[list[Conduct]]) -> ConductRates:
    return ConductRates(
        games=len(games),
        support_rate=_a_phase(games, "supports"),
        effective_support_rate=_a_phase(games, "effective_supports"),
        attack_rate=_a_phase(games, "attacks"),
        honesty=with_variation(
            clustered_mean(
                [
                    [1.0] * sum(each.promises_kept for each in game)
                    + [0.0] * sum(each.promises_broken for each in game)
                    for game in games
                ],
                (0.0, 1.0),
            )
        ),
    )


def with_variation(estimate: Estimate | None) -> Estimate | None:
    """The estimate of a share, without its interval where all values are equal: it would have no width."""
    if estimate is not None and estimate.mean in (0.0, 1.0):
        return Estimate(estimate.mean, None, None, estimate.n)
    return estimate


def _a_phase(games: list[list[Conduct]], count: str) -> Estimate | None:
    """Events for each phase in which two powers could meet: the mean over all such phases, clustered by game."""
    per_game = [(sum(getattr(each, count) for each in game), sum(each.phases for each in game)) for game in games]
    return clustered_mean([[events / phases] * phases for events, phases in per_game if phases], (0.0, float("inf")))
