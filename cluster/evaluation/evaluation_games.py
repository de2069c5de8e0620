"""Evaluation games: draws their seats, plays them, and summarizes the results with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cluster.evaluation.game_origins import game_origin
from opponents.play import play_game
from opponents.players.policy import Policy
from opponents.seeds import derive_seed
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import GameOrigin, SeatPlayer
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring import sum_of_squares
from services.reports.statistics import CENTERS, SHARE, stratified_mean, stratified_rate


@dataclass(frozen=True, slots=True)
class EvaluationGame:
    """One evaluation game to play: the candidate as ``power``, six of ``against`` in the other seats."""

    power: str
    against: str  # bot name
    until_year: int
    seed: int
    save_to: str | None = None  # file for the finished game
    commit: str = "unknown"  # of this project's code, for the saved game


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The candidate's result of one evaluation game."""

    power: str
    centers: int
    win: bool  # a solo
    top: bool  # no other power had more centres: ties count
    survived: bool
    sum_of_squares: float  # share of the squared centres, 1 for a solo


def evaluation_games(
    against: str,
    games_per_country: int,
    until_year: int,
    seed: int,
    save_first_to: Path | None = None,
    commit: str = "unknown",
) -> list[EvaluationGame]:
    """List the games, ``games_per_country`` for each country; all candidates get the same seeds.

    With ``save_first_to`` the first game of each country is saved as ``<folder>/<POWER>.json``, with the ``commit``.
    """

    def game(power: str, number: int) -> EvaluationGame:
        save_to = None if save_first_to is None or number else str(save_first_to / f"{power}.json")
        game_seed = derive_seed(seed, "evaluation", against, power, number)
        return EvaluationGame(power, against, until_year, game_seed, save_to, commit)

    return [game(power, number) for number in range(games_per_country) for power in POWERS]


async def play_evaluation_game(
    spec: EvaluationGame,
    candidate: Policy,
    opponent: Policy,
    described: tuple[SeatPlayer, SeatPlayer] | None = None,
) -> EvaluationResult:
    """Play one evaluation game: ``candidate`` in its seat, ``opponent`` in the other six.

    ``described`` are these two, for a game that is saved; None: the file does not say who played.
    """
    seats: dict[str, Policy] = dict.fromkeys(POWERS, opponent)
    seats[spec.power] = candidate
    game = DiplomacyGame(spec.until_year, game_id=f"evaluation-{spec.seed}")
    outcome = (await play_game(game, seats, spec.seed)).outcome
    if spec.save_to is not None:
        game.origin = None if described is None else _origin(spec, *described)
        game.save(spec.save_to)
    centers = outcome.centers[spec.power]
    solo = outcome.winners[0] if outcome.kind == "solo" else None
    return EvaluationResult(
        power=spec.power,
        centers=centers,
        win=solo == spec.power,
        top=centers == max(outcome.centers.values()),
        survived=centers > 0,
        sum_of_squares=sum_of_squares(outcome.centers, solo)[spec.power],
    )


def _origin(spec: EvaluationGame, candidate: SeatPlayer, opponent: SeatPlayer) -> GameOrigin:
    seats = {**dict.fromkeys(POWERS, opponent), spec.power: candidate}
    return game_origin(seats, seed=spec.seed, until_year=spec.until_year, commit=spec.commit)


def summarize(
    results: Sequence[EvaluationResult], *, checkpoint: str, against: str, until_year: int
) -> dict[str, object]:
    """Return one row of ``summary.json``'s evaluations.

    Means and rates over all games give each country the same weight. Their 95 % intervals are stratified by country;
    games are independent. ``top_rate`` counts ties as leads.
    """
    played = {power: games for power in POWERS if (games := [result for result in results if result.power == power])}
    return {
        "checkpoint": checkpoint,
        "against": against,
        "until_year": until_year,
        **_measures(played),
        "by_country": {power: _measures({power: games}) for power, games in played.items()},
    }


MEASURES = ("mean_centers", "win_rate", "top_rate", "survival_rate", "sum_of_squares")


def evaluation_table(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[str | int | float | None]]]:
    """Flatten the evaluations of a summary to columns and rows: all countries together, then each country.

    An interval has the columns ``<measure>_low`` and ``<measure>_high``; what was not measured is None.
    """
    columns = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    cells: list[list[str | int | float | None]] = []
    for row in rows:
        for country, measured in (("all", row), *row["by_country"].items()):
            figures: list[float | None] = []
            for name in MEASURES:
                bounds = measured.get(f"{name}_ci95")
                figures += [measured.get(name), *(bounds if bounds is not None and len(bounds) == 2 else (None, None))]
            named = [row["label"], row["checkpoint"], row["against"], row["until_year"], country]
            cells.append([*named, measured.get("games"), *figures])
    return ["label", "checkpoint", "against", "until_year", "country", "games", *columns], cells


def describe(row: Mapping[str, Any]) -> str:
    """Format a row of ``summarize`` as one line: centres, survival, leads and solos with their intervals."""
    interval = row["mean_centers_ci95"]
    bounds = "" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]"
    return (
        f"{row['mean_centers']:.2f} centres{bounds}, survived {rate_text(row, 'survival_rate')}, "
        f"leads {rate_text(row, 'top_rate')}, solos {rate_text(row, 'win_rate')} "
        f"({row['games']} games to {row['until_year']})"
    )


def rate_text(row: Mapping[str, Any], name: str) -> str:
    """Format a rate and its interval in percent, e.g. ``12% [7,19]``."""
    low, high = row[f"{name}_ci95"]
    return f"{row[name]:.0%} [{100 * low:.0f},{100 * high:.0f}]"


def _measures(played: Mapping[str, Sequence[EvaluationResult]]) -> dict[str, object]:
    """Compute means and rates of the results by country, each followed by its interval."""
    row: dict[str, object] = {"games": sum(map(len, played.values()))}
    for name, field, estimate_of in (
        ("mean_centers", "centers", partial(stratified_mean, within=CENTERS)),
        ("win_rate", "win", stratified_rate),
        ("top_rate", "top", stratified_rate),
        ("survival_rate", "survived", stratified_rate),
        ("sum_of_squares", "sum_of_squares", partial(stratified_mean, within=SHARE)),
    ):
        estimate = estimate_of({power: [getattr(result, field) for result in games] for power, games in played.items()})
        interval = None if estimate is None else estimate.interval
        row[name] = None if estimate is None else estimate.mean
        row[f"{name}_ci95"] = None if interval is None else list(interval)
    return row
