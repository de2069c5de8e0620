"""Several players beside one another: every pair's differences, and which of them are more than chance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.errors import RunError
from cluster.evaluation.evaluate import (
    AnyPlayer,
    Measured,
    Request,
    evaluate_at,
    evaluation_rows,
    specs_of,
)
from cluster.evaluation.figures.rows import ByRole, mixed_estimate, mixed_row, paired_estimate, values_by_role
from cluster.evaluation.players.opening import name_of
from cluster.evaluation.players.weights import PlayerWeights, weights_of
from cluster.evaluation.tables.designs import mixed_tables
from cluster.evaluation.tables.places import Open, Place
from cluster.evaluation.tables.table import Played
from cluster.runs.progress_bars import AddBar
from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.improvement import paired_probability_of_improvement
from grpo_core.statistics.quantiles import LEVEL
from grpo_core.statistics.significance import holm, p_value
from grpo_core.types import Measure

MIXED = "mixed tables"  # in place of an anchor's name
SIGNIFICANT = 1 - LEVEL
COMPARED = ("sum_of_squares", "mean_centers", "lead_rate_ties_split", "solo_rate", "survival_rate")

AtLevel = Callable[[float], Estimate | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found out about players."""

    rows: list[dict[str, Any]]  # of each player against each anchor, and at mixed tables
    differences: list[dict[str, Any]]  # of each pair, opposition and compared measure


def compare_players(
    request: Request,
    players: Sequence[AnyPlayer],
    anchors: Sequence[str],
    *,
    mixed: bool,
    open_place: Open,
    add_bar: AddBar | None = None,
) -> Comparison:
    """Play all players against the same anchors in the same games and, if ``mixed``, against one another.

    Each difference has a p-value, and one that Holm's correction makes of it for the number of pairs and measures
    against one opposition. A difference is called significant where that is at most 0.05.

    Raises as ``evaluate``.
    """
    names, specs = [name_of(player) for player in players], specs_of(request, players, anchors)
    if len(set(names)) < len(names):
        raise RunError(f"players are told apart by their names, and these are not: {', '.join(names)}")
    with open_place(request.played, specs) as place:
        measured = evaluate_at(place, request, specs, anchors, add_bar)
        shared = play_mixed(place, request, len(players), request.settings.role_games, add_bar) if mixed else []
    rows = evaluation_rows(request, players, measured)
    differences = [row for each in measured for row in paired_differences(request, names, each)]
    if shared:
        weights = [weights_of(spec.player) for spec in specs]
        rows += [_mixed_row(request, shared, name, weights[number], number) for number, name in enumerate(names)]
        differences += mixed_differences(request, names, shared)
    return Comparison(rows, differences)


def play_mixed(
    place: Place, request: Request, players: int, games_per_role: int, add_bar: AddBar | None
) -> list[Played]:
    """Play the first ``players`` players of a place at tables that they share, and return the games in order.

    Each has each role at least ``games_per_role`` times.
    """
    tables = mixed_tables(request.world, players, games_per_role, request.seed)
    advance = None if add_bar is None else add_bar(MIXED, len(tables))
    played: list[Played] = []

    def done(each: Played) -> None:
        played.append(each)
        if advance is not None:
            advance(1)

    place.play(tables, done)
    return sorted(played, key=lambda each: (each.table.number, each.table.seed))


def _mixed_row(
    request: Request, played: Sequence[Played], name: str, weights: PlayerWeights, player: int
) -> dict[str, Any]:
    world = request.played
    return {
        "checkpoint": name,
        "version": weights.version,
        "checksum": weights.checksum,
        "against": MIXED,
        "against_version": None,
        "against_checksum": None,
        **request.facts,
        **mixed_row(world, played, player),
        "definitions": dict(world.definitions),
    }


def paired_differences(
    request: Request, names: Sequence[str], measured: Measured, compared: Sequence[str] = COMPARED
) -> list[dict[str, Any]]:
    """A row for each pair of players and measure named in ``compared``, over the games against one anchor.

    The p-values are corrected for the number of rows.
    """

    def at_level(measure: Measure, before: int, after: int) -> AtLevel:
        old, new = measured.results[before], measured.results[after]
        return lambda level: paired_estimate(measure, old, new, level)

    rows = _differences(request, names, measured.against, at_level, compared)
    measures = {measure.row_name: measure for measure in request.played.measures}
    for row in rows:
        old, new = (measured.results[names.index(row[key])] for key in ("compared_with", "player"))
        row.update(_improvement(measures[row["measure"]], old, new))
    return rows


def _improvement(measure: Measure, old: ByRole, new: ByRole) -> dict[str, Any]:
    """The probability that one is better at the same table, ties half."""
    before, after = values_by_role(old, measure), values_by_role(new, measure)
    estimate = paired_probability_of_improvement(before, after)
    interval = None if estimate is None else estimate.interval
    return {
        "probability_of_improvement": None if estimate is None else estimate.mean,
        "probability_of_improvement_ci95": None if interval is None else list(interval),
    }


def mixed_differences(
    request: Request, names: Sequence[str], played: Sequence[Played], compared: Sequence[str] = COMPARED
) -> list[dict[str, Any]]:
    """The same at mixed tables, whose games are clusters."""

    def at_level(measure: Measure, before: int, after: int) -> AtLevel:
        return lambda level: mixed_estimate(request.world, played, measure, before, after, level)

    return _differences(request, names, MIXED, at_level, compared)


def _differences(
    request: Request,
    names: Sequence[str],
    against: str,
    at_level: Callable[[Measure, int, int], AtLevel],
    compared: Sequence[str],
) -> list[dict[str, Any]]:
    """A row for each pair of players and compared measure, with p-values corrected for their number."""
    by_name = {measure.row_name: measure for measure in request.played.measures}
    measures = [by_name[name] for name in compared]
    rows = []
    for (before, after), measure in itertools.product(itertools.combinations(range(len(names)), 2), measures):
        estimates = at_level(measure, before, after)
        estimate = estimates(LEVEL)
        interval = None if estimate is None else estimate.interval
        rows.append(
            {
                "player": names[after],
                "compared_with": names[before],
                "against": against,
                **request.facts,
                "measure": measure.row_name,
                "difference": None if estimate is None else estimate.mean,
                "difference_ci95": None if interval is None else list(interval),
                "p_value": p_value(estimates),
            }
        )
    for row, corrected in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        row.update(p_value_corrected=corrected, significant=corrected <= SIGNIFICANT)
    return rows
