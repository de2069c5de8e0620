"""Evaluation games: who sits where, and what came out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opponents.play import play_game
from opponents.players.policy import Policy
from opponents.seeding import derive_seed
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring import sum_of_squares
from services.reports.statistics import Estimate, mean_interval, stratified_mean


@dataclass(frozen=True, slots=True)
class EvaluationGame:
    """One evaluation game to play: ``candidate`` as ``power``, six of ``against`` in the other seats."""

    power: str
    candidate: str  # member id, or "learner" for the policy being trained
    against: str  # bot name
    until_year: int
    seed: int
    save_to: str | None = None  # file for the finished game


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """What the candidate got out of one evaluation game."""

    power: str
    centers: int
    win: bool  # a solo
    top: bool  # no other power had more centres
    survived: bool
    sum_of_squares: float  # share of the squared centres, 1 for a solo
    seed: int


def evaluation_games(
    candidate: str, against: str, games_per_country: int, until_year: int, seed: int, save_first_to: Path | None = None
) -> list[EvaluationGame]:
    """Every country ``games_per_country`` times. The seeds do not depend on the candidate: all meet the same games.

    With ``save_first_to`` the first game of each country is saved as ``<folder>/<POWER>.json``.
    """

    def file(power: str, number: int) -> str | None:
        return str(save_first_to / f"{power}.json") if save_first_to is not None and number == 0 else None

    return [
        EvaluationGame(
            power,
            candidate,
            against,
            until_year,
            derive_seed(seed, "evaluation", against, power, number),
            file(power, number),
        )
        for number in range(games_per_country)
        for power in POWERS
    ]


async def play_evaluation_game(spec: EvaluationGame, candidate: Policy, opponent: Policy) -> EvaluationResult:
    """Play one evaluation game: ``candidate`` in its seat, ``opponent`` in the other six."""
    seats: dict[str, Policy] = dict.fromkeys(POWERS, opponent)
    seats[spec.power] = candidate
    game = DiplomacyGame(spec.until_year, game_id=f"evaluation-{spec.seed}")
    outcome = (await play_game(game, seats, spec.seed)).outcome
    if spec.save_to is not None:
        game.save(spec.save_to)
    centers = outcome.centers[spec.power]
    return EvaluationResult(
        power=spec.power,
        centers=centers,
        win=outcome.kind == "solo" and spec.power in outcome.winners,
        top=centers == max(outcome.centers.values()),
        survived=centers > 0,
        sum_of_squares=sum_of_squares(outcome.centers, outcome.winners[0] if outcome.kind == "solo" else None)[
            spec.power
        ],
        seed=spec.seed,
    )


def summarize(
    results: Sequence[EvaluationResult], *, checkpoint: str, against: str, until_year: int
) -> dict[str, object]:
    """One row of ``summary.json``'s evaluations.

    The mean over games weighs every country alike; its 95 % interval is stratified by country.
    """
    by_country = {power: [result for result in results if result.power == power] for power in POWERS}
    played = {power: games for power, games in by_country.items() if games}
    row = _row(results)
    for name, estimate in (
        (
            "mean_centers",
            stratified_mean({p: [float(r.centers) for r in games] for p, games in played.items()}),
        ),
        (
            "sum_of_squares",
            stratified_mean({p: [r.sum_of_squares for r in games] for p, games in played.items()}),
        ),
    ):
        row[name], row[f"{name}_ci95"] = _plain(estimate)
    return {
        "checkpoint": checkpoint,
        "against": against,
        "until_year": until_year,
        **row,
        "by_country": {power: _row(games) for power, games in played.items()},
    }


def _row(results: Sequence[EvaluationResult]) -> dict[str, object]:
    centers, centers_ci = _plain(mean_interval([float(result.centers) for result in results]))
    squares, squares_ci = _plain(mean_interval([result.sum_of_squares for result in results]))
    return {
        "games": len(results),
        "mean_centers": centers,
        "mean_centers_ci95": centers_ci,
        "win_rate": _share([result.win for result in results]),
        "top_rate": _share([result.top for result in results]),
        "survival_rate": _share([result.survived for result in results]),
        "sum_of_squares": squares,
        "sum_of_squares_ci95": squares_ci,
    }


def _plain(estimate: Estimate | None) -> tuple[float | None, list[float] | None]:
    if estimate is None:
        return None, None
    return estimate.mean, None if estimate.interval is None else list(estimate.interval)


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
