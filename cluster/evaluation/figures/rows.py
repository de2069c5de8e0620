"""Rows of measures with intervals: of one player, and of the difference of two, over the same or over shared games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.evaluation.tables.table import Played
from grpo_core.statistics.estimate import Estimate, difference
from grpo_core.statistics.mixed_tables import Seat, mixed_difference, mixed_mean, mixed_rate, mixed_rate_difference
from grpo_core.statistics.paired import stratified_paired_difference
from grpo_core.statistics.paired_rates import stratified_paired_rate_difference
from grpo_core.statistics.quantiles import LEVEL
from grpo_core.statistics.rates import counted_rate
from grpo_core.types import Measure
from services.environments.environment import World
from services.environments.evaluation import EvaluationResult, counted, stratified_estimate, stratified_row

ByRole = Mapping[str, Sequence[EvaluationResult]]


def results_by_role(world: World, played: Iterable[Played], player: int) -> dict[str, list[EvaluationResult]]:
    """The results of one player in its measured seats by role, in the order of rounds."""
    found: dict[str, list[EvaluationResult]] = {role: [] for role in world.roles}
    for each in sorted(played, key=lambda each: each.table.number):
        for role in each.table.measured:
            if each.table.seats.get(role, player) == player:
                own = EvaluationResult(role, each.table.number, each.outcomes[role], each.notes[role])
                found[role].append(own)
    return {role: own for role, own in found.items() if own}


def measured_row(world: World, results: ByRole, level: float = LEVEL) -> dict[str, Any]:
    """The measures of a player over all roles with equal weight, and of each role; games are independent."""
    by_role = {role: stratified_row({role: own}, world.measures, level) for role, own in results.items()}
    return {**stratified_row(results, world.measures, level), f"by_{world.role_name}": by_role}


def difference_row(world: World, before: ByRole, after: ByRole, level: float = LEVEL) -> dict[str, Any]:
    """The differences ``after - before`` of two players in the same games, with paired intervals."""
    figures = {measure: paired_estimate(measure, before, after, level) for measure in world.measures}
    return {"pairs": sum(map(len, before.values())), **_cells(figures)}


def paired_estimate(measure: Measure, before: ByRole, after: ByRole, level: float = LEVEL) -> Estimate | None:
    """The difference ``after - before`` of a measure over games that both played, stratified by role.

    Shares of things that games have in different numbers have no pairs: they count as independent.
    """
    if measure.weight:
        return _independent(*(stratified_estimate(each, measure, level) for each in (before, after)))
    old, new = values_by_role(before, measure), values_by_role(after, measure)
    if measure.kind == "share":
        return stratified_paired_rate_difference(old, new, level=level)
    return stratified_paired_difference(old, new, _apart(measure), level=level)


def values_by_role(results: ByRole, measure: Measure) -> dict[str, list[float]]:
    """The values of a measure by role, in the order of the results."""
    return {role: [each.outcome[measure.outcome] for each in own] for role, own in results.items()}


def mixed_row(world: World, played: Sequence[Played], player: int, level: float = LEVEL) -> dict[str, Any]:
    """The measures of a player at tables that it shares, over all roles with equal weight, and of each role.

    A game's seats depend on one another, so the intervals are those of values that are clustered by game.
    """
    by_role = {role: _cells(_mixed(world, played, player, (role,), level)) for role in world.roles}
    games = sum(player in each.table.seats.values() for each in played)
    overall = _cells(_mixed(world, played, player, world.roles, level))
    return {"games": games, **overall, f"by_{world.role_name}": by_role}


def mixed_estimate(
    world: World, played: Sequence[Played], measure: Measure, before: int, after: int, level: float = LEVEL
) -> Estimate | None:
    """The difference ``after - before`` of two players of the same tables, over roles of equal weight."""
    if measure.weight:
        return _independent(*(_counted(played, player, world.roles, measure, level) for player in (before, after)))
    old, new = mixed_seats(played, before, measure), mixed_seats(played, after, measure)
    if measure.kind == "share":
        return mixed_rate_difference(old, new, world.roles, level=level)
    return mixed_difference(old, new, world.roles, _apart(measure), level=level)


def mixed_seats(
    played: Sequence[Played], player: int, measure: Measure, roles: Sequence[str] | None = None
) -> list[Seat]:
    """What a player got in each seat of each game; in all roles, or in some."""
    return [
        Seat(each.table.seed, role, each.outcomes[role][measure.outcome])
        for each in played
        for role, own in each.table.seats.items()
        if own == player and (roles is None or role in roles)
    ]


def _mixed(
    world: World, played: Sequence[Played], player: int, roles: Sequence[str], level: float
) -> dict[Measure, Estimate | None]:
    figures: dict[Measure, Estimate | None] = {}
    for measure in world.measures:
        if measure.weight:
            figures[measure] = _counted(played, player, roles, measure, level)
            continue
        seats = mixed_seats(played, player, measure, roles)
        if measure.kind == "share":
            figures[measure] = mixed_rate(seats, roles, level=level)
        else:
            figures[measure] = mixed_mean(seats, roles, (measure.low, measure.high), level=level)
    return figures


def _counted(
    played: Sequence[Played], player: int, roles: Sequence[str], measure: Measure, level: float
) -> Estimate | None:
    """A player's share of all things that its seats had, clustered by game."""
    clusters = [
        [
            counted(each.outcomes[role], measure)
            for role, own in each.table.seats.items()
            if own == player and role in roles
        ]
        for each in played
    ]
    return counted_rate(clusters, level=level)


def _independent(before: Estimate | None, after: Estimate | None) -> Estimate | None:
    return None if before is None or after is None else difference(before, after)


def _cells(figures: Mapping[Measure, Estimate | None]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for measure, estimate in figures.items():
        interval = None if estimate is None else estimate.interval
        row[measure.row_name] = None if estimate is None else estimate.mean
        row[f"{measure.row_name}_ci95"] = None if interval is None else list(interval)
    return row


def _apart(measure: Measure) -> tuple[float, float]:
    """The range of a difference of two means."""
    widest = measure.high - measure.low
    return -widest, widest
