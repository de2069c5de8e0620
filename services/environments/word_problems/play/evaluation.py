"""Evaluation rows of word problems: exact match, pass@k and maj@k with intervals over problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from grpo_core.statistics.estimate import SHARE, Estimate
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.rates import stratified_rate
from services.environments.evaluation import EvaluationResult
from services.environments.word_problems.scores import maj_at_k, pass_at_k

K = 8  # of pass@k and maj@k, whatever the number of samples: figures of one k can be compared


def problem_row(results: Mapping[str, Sequence[EvaluationResult]], samples: int) -> dict[str, Any]:
    """A row over results by variant. Of each problem the first answer is greedy, the other ``samples`` are sampled.

    ``exact_match`` is that of the greedy answers, ``pass_at_1`` that of the samples. With fewer than ``K`` samples
    ``pass_at_8`` and ``maj_at_8`` are None. Problems are independent.
    """
    greedy: dict[str, list[bool]] = {}
    found: dict[str, dict[str, list[float]]] = {}
    for role, own in results.items():
        by_problem: dict[int, list[EvaluationResult]] = {}
        for result in sorted(own, key=lambda each: each.number):
            by_problem.setdefault(result.number // (samples + 1), []).append(result)
        greedy[role] = [answers[0].outcome["exact_match"] >= 1 for answers in by_problem.values()]
        for answers in by_problem.values():
            right = [answer.outcome["exact_match"] >= 1 for answer in answers[1:]]
            values = {
                "pass_at_1": sum(right) / samples,
                "form": sum(answer.outcome["form"] for answer in answers) / len(answers),
            }
            if samples >= K:
                values[f"pass_at_{K}"] = pass_at_k(samples, sum(right), K)
                values[f"maj_at_{K}"] = _maj_at_k(answers[1:], right)
            for name, value in values.items():
                found.setdefault(name, {}).setdefault(role, []).append(value)
    row: dict[str, Any] = {"games": sum(map(len, results.values()))}
    _add(row, "exact_match", stratified_rate(greedy))
    for name in ("pass_at_1", f"pass_at_{K}", f"maj_at_{K}", "form"):
        _add(row, name, stratified_mean(found[name], within=SHARE) if name in found else None)
    return row


def _maj_at_k(answers: Sequence[EvaluationResult], right: Sequence[bool]) -> float:
    numbers = [Fraction(answer.note) if answer.note else None for answer in answers]
    truth = next((number for number, is_right in zip(numbers, right, strict=True) if is_right), None)
    return 0.0 if truth is None else maj_at_k(numbers, truth, K)


def _add(row: dict[str, Any], name: str, estimate: Estimate | None) -> None:
    interval = None if estimate is None else estimate.interval
    row[name] = None if estimate is None else estimate.mean
    row[f"{name}_ci95"] = None if interval is None else list(interval)
