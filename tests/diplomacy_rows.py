"""Rows of made-up evaluations of Diplomacy, as its runs write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.evaluation.evaluation_games import evaluation_row
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.evaluation import EvaluationResult


def result(
    power: str,
    centers: int,
    *,
    win: bool = False,
    top: bool = False,
    survived: bool = True,
    squares: float = 0.1,
    number: int = 0,
) -> EvaluationResult:
    """The candidate's result of a game as ``power``."""
    outcome = {"centers": float(centers), "solo": win, "top": top, "survived": survived, "sum_of_squares": squares}
    return EvaluationResult(power, number, {name: float(value) for name, value in outcome.items()})


def row(results: Sequence[EvaluationResult], *, checkpoint: str, against: str, until_year: int) -> dict[str, Any]:
    """The row of games to the end of a year."""
    settings = DiplomacyEvaluation(until_year=until_year)
    return evaluation_row(Diplomacy(GameSettings()), settings, results, checkpoint=checkpoint, against=against)
