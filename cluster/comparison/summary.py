"""What the runs of a comparison say together: by task, over tasks, and which differences chance alone may make."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np

from cluster.comparison.comparison import Finished
from grpo_core.statistics.aggregate import aggregate_score, lowest_mean, performance_profile
from grpo_core.statistics.estimate import UNBOUNDED, Estimate
from grpo_core.statistics.improvement import probability_of_improvement
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.permutation import permutation_p_value
from grpo_core.statistics.ratios import ratio_of_means
from grpo_core.statistics.significance import holm
from services.environments.tensor_task import TensorTask

SIGNIFICANT = 0.05
ONE_GROUP = "grpo_batch"  # the method that compares all with all
PROFILE = tuple(round(0.1 * number, 1) for number in range(13))  # thresholds of the normalised score
_NO_LESS = (0.0, math.inf)  # exploitability is not negative
Values = dict[str, dict[str, list[float]]]  # by method and task, one of each seed


def summarised(finished: Sequence[Finished], tasks: Mapping[str, TensorTask], seed: int = 0) -> dict[str, Any]:
    """Everything that ``results.json`` has beside the rows; JSON-able."""
    runs = list(finished)
    returns = _by_method(runs, lambda run: float(run.rows[-1]["return"]))
    gaps = _by_method(
        [run for run in runs if "exploitability" in run.rows[-1]], lambda run: run.rows[-1]["exploitability"]
    )
    average = _by_method(
        [run for run in runs if "exploitability" in run.rows[-1]], lambda run: run.rows[-1]["average_exploitability"]
    )
    scored = _by_method(
        [run for run in runs if "exploitability" not in run.rows[-1]],
        lambda run: tasks[run.cell.task].score(float(run.rows[-1]["return"])),
    )
    goodness: Values = {
        method: {task: [-gap for gap in gaps[method][task]] if task in gaps.get(method, {}) else values
                 for task, values in by_task.items()}
        for method, by_task in returns.items()
    }  # fmt: skip
    return {
        "by_task": [_task_row(name, method, runs, gaps, average)
                    for name in dict.fromkeys(run.cell.task for run in runs)
                    for method in dict.fromkeys(run.cell.method for run in runs if run.cell.task == name)],
        "equal_seconds": _equal_seconds(runs),
        "over_tasks": _over_tasks(scored, seed),
        "worst_variants": _worst_variants(runs, seed),
        "pairs": _pairs(goodness, seed),
        "pairs_by_task": {task: _pairs(_only(goodness, task), seed)
                          for task in dict.fromkeys(run.cell.task for run in runs)},
        "diverged": [{"run": each.cell.name, "error": each.error} for each in finished if each.error],
    }  # fmt: skip


def _by_method(runs: Sequence[Finished], value: Callable[[Finished], float]) -> Values:
    found: Values = defaultdict(lambda: defaultdict(list))
    for run in runs:
        found[run.cell.method][run.cell.task].append(value(run))
    return {method: dict(by_task) for method, by_task in found.items()}


def _task_row(task: str, method: str, runs: Sequence[Finished], gaps: Values, average: Values) -> dict[str, Any]:
    """One method on one task, over its seeds."""
    own = [run for run in runs if run.cell.task == task and run.cell.method == method]
    last = [float(run.rows[-1]["return"]) for run in own]
    row: dict[str, Any] = {
        "task": task,
        "method": method,
        "seeds": len(own),
        "unit": own[0].cell.unit,
        "budget": own[0].cell.budget,
        "least": min(run.rows[-1][own[0].cell.unit] for run in own),  # of the budget
        "most": max(run.rows[-1][own[0].cell.unit] for run in own),
        "steps": round(fmean(run.rows[-1]["steps"] for run in own)),
        **_with_interval("return", stratified_mean({"": last})),
        "worst_seed": min(last),
        "diverged": sum(bool(run.error) for run in own),
        "deviation": stdev(last) if len(last) > 1 else None,  # between seeds
        "start": fmean(float(run.rows[0]["return"]) for run in own),
        "episodes": round(fmean(run.rows[-1]["episodes"] for run in own)),
        # On the same episodes as before training, seed by seed.
        **_with_interval(
            "gain",
            stratified_mean({"": [end - float(run.rows[0]["return"]) for end, run in zip(last, own, strict=True)]}),
        ),
        **_with_interval("area", stratified_mean({"": [_area(run) for run in own]})),
        "figures": list(own[0].rows[-1]["figures"]),  # more columns of this row
        "seconds": fmean(float(run.rows[-1]["seconds"]) for run in own),
        "steps_per_second": fmean(run.rows[-1]["steps"] / max(float(run.rows[-1]["seconds"]), 1e-9) for run in own),
    }
    if variants := own[0].rows[-1]["by_variant"]:
        worst = [min(run.rows[-1]["by_variant"].values()) for run in own]
        row |= _with_interval("worst_variant", stratified_mean({"": worst}))
        shares = [list(run.rows[-1]["by_variant"].values()) for run in own]
        comparable = all(min(each) >= 0 < max(each) for each in shares)
        balance = [min(each) / max(each) for each in shares] if comparable else []  # worst over best variant
        row |= _with_interval("balance", stratified_mean({"": balance}, (0.0, 1.0)))
        row |= _with_interval(
            "fairness", stratified_mean({"": [*map(fairness, shares)] if comparable else []}, (0.0, 1.0))
        )
        row["by_variant"] = {name: fmean(run.rows[-1]["by_variant"][name] for run in own) for name in variants}
    for name in own[0].rows[-1]["figures"]:
        row |= _with_interval(name, stratified_mean({"": [float(run.rows[-1]["figures"][name]) for run in own]}))
    if task in gaps.get(method, {}):
        row |= _with_interval("exploitability", stratified_mean({"": gaps[method][task]}, _NO_LESS))
        row |= _with_interval("average_exploitability", stratified_mean({"": average[method][task]}, _NO_LESS))
        row["worst_seed"] = max(gaps[method][task])
        # The average of policies begins with even odds over all moves, which no method chose.
        row["uniform_exploitability"] = fmean(float(run.rows[0]["average_exploitability"]) for run in own)
    return row


def _worst_variants(runs: Sequence[Finished], seed: int) -> list[dict[str, Any]]:
    """What groups by task bring the worst variant of a task, as a ratio to one group for all, with its interval."""
    worst: Values = _by_method(
        [run for run in runs if run.rows[-1]["by_variant"]], lambda run: min(run.rows[-1]["by_variant"].values())
    )
    found = []
    for method, by_task in worst.items():
        for task, values in by_task.items():
            against = worst.get(ONE_GROUP, {}).get(task)
            if method != ONE_GROUP and against:
                generator = np.random.Generator(np.random.PCG64(seed))
                found.append(
                    {
                        "task": task,
                        "method": method,
                        **_with_interval("ratio", ratio_of_means(values, against, generator)),
                    }
                )
    return sorted(found, key=lambda row: (row["task"], -(row["ratio"] or 0.0)))


def _equal_seconds(runs: Sequence[Finished]) -> list[dict[str, Any]]:
    """What each method had reached when the fastest run of its task was over, between measurements by a line."""
    found = []
    for task in dict.fromkeys(run.cell.task for run in runs):
        own = [run for run in runs if run.cell.task == task]
        name = "exploitability" if "exploitability" in own[0].rows[-1] else "return"
        whole = [run for run in own if not run.error] or own  # one that diverged stopped early
        seconds = min(float(run.rows[-1]["seconds"]) for run in whole)
        reached: defaultdict[str, list[float]] = defaultdict(list)
        for run in own:
            times = [float(row["seconds"]) for row in run.rows]
            reached[run.cell.method].append(float(np.interp(seconds, times, [float(row[name]) for row in run.rows])))
        found += [
            {
                "task": task,
                "method": method,
                "seconds": seconds,
                **_with_interval(name, stratified_mean({"": values}, _NO_LESS if name != "return" else UNBOUNDED)),
            }
            for method, values in reached.items()
        ]
    return found


def fairness(returns: Sequence[float]) -> float:
    """Return Jain's index of how evenly variants fare: 1 where all have as much, 1 / n where one has everything.

    ``returns`` are not negative, and one is above 0 (Jain, Chiu and Hawe, DEC Research Report TR-301, 1984).
    """
    return sum(returns) ** 2 / (len(returns) * sum(value * value for value in returns))


def _only(values: Values, task: str) -> Values:
    return {method: {task: by_task[task]} for method, by_task in values.items() if task in by_task}


def _area(run: Finished) -> float:
    """The mean return over the run's steps, by trapezia: high for what learns early."""
    steps = np.array([row["steps"] for row in run.rows], np.float64)
    values = np.array([row["return"] for row in run.rows], np.float64)
    return float(np.trapezoid(values, steps) / max(steps[-1] - steps[0], 1.0))


def _over_tasks(scored: Values, seed: int) -> list[dict[str, Any]]:
    """Normalised scores over tasks: a table for each set of two tasks or more that are all that some method has.

    In it is every method that has these tasks, perhaps besides others; sets with more tasks come first.
    """
    sets = {frozenset(by_task) for by_task in scored.values() if len(by_task) > 1}
    return [_over(sorted(tasks), scored, seed) for tasks in sorted(sets, key=lambda each: (-len(each), sorted(each)))]


def _over(tasks: Sequence[str], scored: Values, seed: int) -> dict[str, Any]:
    rows = []
    for method, by_task in scored.items():
        if not set(tasks) <= set(by_task):
            continue
        own = {task: by_task[task] for task in tasks}
        generator = np.random.Generator(np.random.PCG64(seed))
        profile = performance_profile(own, PROFILE, generator)
        rows.append({
            "method": method,
            **_with_interval("interquartile_mean", aggregate_score(own, generator)),
            **_with_interval("worst_task", lowest_mean(own, generator)),
            "profile": [{"above": above, **_with_interval("share", each)}
                        for above, each in zip(PROFILE, profile, strict=True)],
        })  # fmt: skip
    return {"tasks": list(tasks), "rows": sorted(rows, key=lambda row: -row["interquartile_mean"])}


def _pairs(goodness: Values, seed: int) -> list[dict[str, Any]]:
    """Every pair of methods over the tasks that both have: how probably a run of the second is better.

    Its p-value is that of a permutation test, which is right for few seeds and for runs of which all are better, and is
    corrected for the number of these pairs.
    """
    found = []
    for first, second in itertools.combinations(goodness, 2):
        shared = sorted(goodness[first].keys() & goodness[second].keys())
        if not shared:
            continue
        before = {task: goodness[first][task] for task in shared}
        after = {task: goodness[second][task] for task in shared}
        found.append({
            "first": first, "second": second, "tasks": shared,
            **_with_interval("second_better", probability_of_improvement(before, after)),
            "p": permutation_p_value(before, after, np.random.Generator(np.random.PCG64(seed))),
        })  # fmt: skip
    for row, corrected in zip(found, holm([row["p"] for row in found]), strict=True):
        row["p_corrected"] = corrected
        row["significant"] = corrected <= SIGNIFICANT
    return found


def _with_interval(name: str, found: Estimate | None) -> dict[str, Any]:
    if found is None:
        return {name: None, f"{name}_ci95": None}
    return {name: found.mean, f"{name}_ci95": found.interval}
