"""Evaluation games against fixed anchors, and what a row of results says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.rates import stratified_rate
from grpo_core.types import Measure
from services.environments.playing import Parts


@dataclass(frozen=True, slots=True)
class EvaluationGame:
    """One evaluation game to play: the candidate as ``role``, the anchor in all other seats."""

    role: str
    against: str  # the anchor's name
    number: int  # among the games of its role
    start: str
    seed: int
    temperature: float | None = None  # of the candidate's sampling; None: evaluation.temperature
    save_to: str | None = None  # file for the finished game
    commit: str = "unknown"  # of this project's code, for the saved game


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The candidate's result of one evaluation game."""

    role: str
    number: int
    outcome: Parts
    note: str = ""


def stratified_row(results: Mapping[str, Sequence[EvaluationResult]], measures: Sequence[Measure]) -> dict[str, Any]:
    """The number of games, and each measure over results by role, followed by its interval; None without data."""
    row: dict[str, Any] = {"games": sum(map(len, results.values()))}
    for measure in measures:
        values = {role: [each.outcome[measure.outcome] for each in own] for role, own in results.items()}
        if measure.kind == "share":
            estimate = stratified_rate({role: [bool(value) for value in own] for role, own in values.items()})
        else:
            estimate = stratified_mean(values, within=(measure.low, measure.high))
        interval = None if estimate is None else estimate.interval
        row[measure.row_name] = None if estimate is None else estimate.mean
        row[f"{measure.row_name}_ci95"] = None if interval is None else list(interval)
    return row
