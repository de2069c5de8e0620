"""Evaluation games against fixed anchors, and what a row of results says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.rates import counted_rate, stratified_rate
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
    is_muted: bool = False  # whether the candidate's letters are withheld


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The candidate's result of one evaluation game."""

    role: str
    number: int
    outcome: Parts
    note: str = ""


def counted(outcome: Mapping[str, float], measure: Measure) -> tuple[float, float]:
    """A game's value of a measure with ``weight``, and of how many things it is the share."""
    return outcome[measure.outcome], outcome[measure.weight]


def stratified_row(
    results: Mapping[str, Sequence[EvaluationResult]], measures: Sequence[Measure], level: float = 0.95
) -> dict[str, Any]:
    """The number of games, and each measure over results by role, followed by its interval; None without data.

    ``level`` is the confidence of an interval. It is higher than 0.95 where several looks at growing results together
    keep 0.95.
    """
    row: dict[str, Any] = {"games": sum(map(len, results.values()))}
    for measure in measures:
        estimate = stratified_estimate(results, measure, level)
        interval = None if estimate is None else estimate.interval
        row[measure.row_name] = None if estimate is None else estimate.mean
        row[f"{measure.row_name}_ci95"] = None if interval is None else list(interval)
    return row


def stratified_estimate(
    results: Mapping[str, Sequence[EvaluationResult]], measure: Measure, level: float = 0.95
) -> Estimate | None:
    """A measure over results by role, each role with the same weight; None without data of a role.

    A share of things that games have in different numbers is one of all of them, whatever the role.
    """
    if measure.weight:
        return counted_rate([[counted(each.outcome, measure)] for own in results.values() for each in own], level=level)
    values = {role: [each.outcome[measure.outcome] for each in own] for role, own in results.items()}
    if measure.kind == "share":
        return stratified_rate({role: [bool(value) for value in own] for role, own in values.items()}, level=level)
    return stratified_mean(values, within=(measure.low, measure.high), level=level)
