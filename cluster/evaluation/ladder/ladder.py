"""Ranks players: one evaluation against an anchor, ratings from shared tables, published figures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cluster.errors import RunError
from cluster.evaluation.evaluate import Request, evaluate_at, evaluation_rows, specs_of
from cluster.evaluation.figures.comparison import mixed_differences, paired_differences, play_mixed
from cluster.evaluation.ladder.neighbours import RATED_BY, SORTED_BY, neighbours
from cluster.evaluation.ladder.published import published_rows
from cluster.evaluation.ladder.rating import Rated, rate_tables
from cluster.evaluation.tables.places import Open
from cluster.evaluation.tables.table import Played
from cluster.runs.progress_bars import AddBar
from services.environments.diplomacy.ending import Ending

MOST_AT_TABLES = 7  # seats of a mixed table


@dataclass(frozen=True, slots=True)
class Ladder:
    """What was measured."""

    against: str
    rows: list[dict[str, Any]]  # of the players, from the highest; as rows of an evaluation, with place and rating
    published: list[dict[str, Any]]  # figures of others, with the names of the rows
    neighbours: list[dict[str, Any]]  # each player and the next one below it
    differences: list[dict[str, Any]]  # of every pair, in the measure that neighbours are compared by
    fixed: str | None  # the bot that fixes the ratings' scale
    mixed_games: int  # 0: there are no ratings


def check_players(names: Sequence[str], mixed_games: int) -> None:
    """Raise RunError for players that cannot be ranked together, before anything is opened."""
    if not names:
        raise RunError("a ladder needs a player: name one, or none for hold, random, greedy and dumbbot")
    if mixed_games and len(names) > MOST_AT_TABLES:
        raise RunError(
            f"{len(names)} players do not fit at a table of {MOST_AT_TABLES}, where ratings are played: leave some "
            "out, or rank them by the sum of squares with --mixed-games 0"
        )


def measure_ladder(
    request: Request,
    ending: Ending,
    names: Sequence[str],
    anchor: str,
    mixed_games: int,
    open_place: Open,
    add_bar: AddBar | None = None,
) -> Ladder:
    """Play each player against six of the anchor and, if there are two or more, all of them at mixed tables.

    ``ending`` is that of the request's games. In ``mixed_games`` games or more at mixed tables each player has each
    country; 0: there are none, and the sum of squares ranks the players. Published figures are of games without press.

    Raises as ``check_players`` and ``evaluate``.
    """
    check_players(names, mixed_games)
    specs = specs_of(request, names, [anchor])
    with open_place(request.played, specs) as place:
        (measured,) = evaluate_at(place, request, specs, [anchor], add_bar)
        has_tables = mixed_games > 0 and len(names) > 1
        shared = play_mixed(place, request, len(names), mixed_games, add_bar) if has_tables else []
    rows = evaluation_rows(request, names, [measured])
    rated = rate_tables(request.played, names, shared) if shared else None
    if rated is None:
        differences = paired_differences(request, names, measured, (SORTED_BY,)) if len(names) > 1 else []
    else:
        differences = mixed_differences(request, names, shared, (RATED_BY,))
    _add_ratings(rows, rated, shared)
    ordered = _ordered(rows)
    return Ladder(
        against=anchor,
        rows=ordered,
        published=[] if request.played.has_press else published_rows(anchor, ending),
        neighbours=neighbours([row["checkpoint"] for row in ordered], differences),
        differences=differences,
        fixed=None if rated is None else rated.fixed,
        mixed_games=len(shared),
    )


def _add_ratings(rows: Sequence[dict[str, Any]], rated: Rated | None, shared: Sequence[Played]) -> None:
    """Give each row its rating, with an interval unless it fixes the scale; None without ratings."""
    for number, row in enumerate(rows):
        rating = None if rated is None else rated.ratings[number]
        row["rating"] = None if rating is None else rating.mu
        row["rating_ci95"] = None if rating is None or not rating.sigma else list(rating.interval)
        row["rating_fixed"] = rated is not None and row["checkpoint"] == rated.fixed
        row["mixed_games"] = len(shared)


def _ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows from the highest, by rating or, without one, by the sum of squares; ``place`` counts from 1."""

    def key(row: dict[str, Any]) -> tuple[float, str]:
        value = row[SORTED_BY] if row["rating"] is None else row["rating"]
        return -(value or 0.0), row["checkpoint"]

    return [{"place": place, **row} for place, row in enumerate(sorted(rows, key=key), start=1)]
