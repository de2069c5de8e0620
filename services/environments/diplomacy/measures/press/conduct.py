"""How powers treated one another in a saved game, and how players treat one another over many games."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import clustered_mean
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.measures.press.history import negotiated_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.conduct import Conduct, ConductLog, Pair

ByYear = Mapping[int, Mapping[Pair, Conduct]]  # year, ascending -> conduct from a game's beginning to its end


def conduct(document: Mapping[str, Any], name: str) -> Mapping[Pair, Conduct]:
    """The conduct of every power to every other one in a saved game; raises as ``negotiated_phases``."""
    return until_end(conduct_by_year(document, name))


def conduct_by_year(document: Mapping[str, Any], name: str) -> ByYear:
    """``conduct`` from the beginning of a saved game to the end of each of its years; raises as that."""
    log, found = ConductLog(), dict[int, dict[Pair, Conduct]]()
    for phase in negotiated_phases(document, name):
        log.add(phase.position, phase.orders, phase.results, phase.letters, phase.verdicts)
        found[phase.position.year] = {pair: replace(own) for pair, own in log.pairs.items()}
    return found


def until_end(years: ByYear, year: int | None = None) -> Mapping[Pair, Conduct]:
    """The conduct to the end of a year, or of the game; a game that ended before has what it had then."""
    return next((years[each] for each in reversed([*years]) if year is None or each <= year), {})


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
    return {pair: _rates(each) for pair, each in sorted(_by_players(games).items())}


def honesty_by_year(games: Iterable[tuple[Mapping[str, str], ByYear]]) -> dict[int, dict[Pair, Estimate]]:
    """The share of tested promises that were kept by the end of each year, by pair of players over games.

    Games are given as the players by seat and ``conduct_by_year``. One that is over keeps its count in later years.
    Pairs that have no such promise yet are left out.
    """
    known = list(games)
    found: dict[int, dict[Pair, Estimate]] = {}
    for year in sorted({year for _, years in known for year in years}):
        clusters = _by_players((players, until_end(years, year)) for players, years in known)
        shares = ((pair, _honesty(each)) for pair, each in sorted(clusters.items()))
        found[year] = {pair: share for pair, share in shares if share is not None}
    return found


def _by_players(games: Iterable[tuple[Mapping[str, str], Mapping[Pair, Conduct]]]) -> dict[Pair, list[list[Conduct]]]:
    """The conduct of each game, by pair of players."""
    clusters: defaultdict[Pair, list[list[Conduct]]] = defaultdict(list)
    for players, found in games:
        by_players: defaultdict[Pair, list[Conduct]] = defaultdict(list)
        for (power, other), own in found.items():
            if power in players and other in players:
                by_players[players[power], players[other]].append(own)
        for pair, each in by_players.items():
            clusters[pair].append(each)
    return clusters


def saved_conduct(document: Mapping[str, Any], name: str) -> tuple[Mapping[str, str], Mapping[Pair, Conduct]]:
    """A saved game for ``conduct_rates``: who sat where, by power where the file does not say, and the conduct."""
    players, years = saved_years(document, name)
    return players, until_end(years)


def saved_years(document: Mapping[str, Any], name: str) -> tuple[Mapping[str, str], ByYear]:
    """A saved game for ``honesty_by_year``, as ``saved_conduct``."""
    return seated_players(document) or {power: power for power in POWERS}, conduct_by_year(document, name)


def _rates(games: list[list[Conduct]]) -> ConductRates:
    return ConductRates(
        games=len(games),
        support_rate=_a_phase(games, "supports"),
        effective_support_rate=_a_phase(games, "effective_supports"),
        attack_rate=_a_phase(games, "attacks"),
        honesty=_honesty(games),
    )


def _honesty(games: list[list[Conduct]]) -> Estimate | None:
    kept = [sum(each.promises_kept for each in game) for game in games]
    broken = [sum(each.promises_broken for each in game) for game in games]
    return with_variation(
        clustered_mean([[1.0] * one + [0.0] * other for one, other in zip(kept, broken, strict=True)], (0.0, 1.0))
    )


def with_variation(estimate: Estimate | None) -> Estimate | None:
    """The estimate of a share, without its interval where all values are equal: it would have no width."""
    if estimate is not None and estimate.mean in (0.0, 1.0):
        return Estimate(estimate.mean, None, None, estimate.n)
    return estimate


def _a_phase(games: list[list[Conduct]], count: str) -> Estimate | None:
    """Events for each phase in which two powers could meet: the mean over all such phases, clustered by game.

    Without any event there is no interval: it would have no width.
    """
    per_game = [(sum(getattr(each, count) for each in game), sum(each.phases for each in game)) for game in games]
    rates = [[events / phases] * phases for events, phases in per_game if phases]
    estimate = clustered_mean(rates, (0.0, float("inf")))
    return estimate if estimate is None or estimate.mean > 0 else Estimate(0.0, None, None, estimate.n)
