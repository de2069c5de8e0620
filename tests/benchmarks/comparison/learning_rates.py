"""One learning rate for each method of ``entente compare``: ``python -m tests.benchmarks.comparison.learning_rates``.

Every method gets the same five rates, the same tasks as far as it runs on them, and the same seeds, which the study
does not have. For each task the rates are ranked by the mean over seeds of what the last measurement counts as; the
rate with the lowest mean rank over tasks is the method's. On a tie it is the one nearer to the middle of the five.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from cluster.comparison.cell import Cell, run_cell
from cluster.comparison.methods import METHODS
from cluster.comparison.plans import PLANS
from cluster.comparison.sensitivity.trials import goodness
from cluster.runs.provenance import commit, provenance
from grpo_core.errors import DivergenceError

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
SEEDS = (1000, 1001)
TASKS = {"cartpole_family": 60_000, "half_cheetah": 60_000, "leduc_poker": 30_000}  # and their steps
LATE = 3  # of five measurements, the first at the start: what counts is the mean from this one on


def cells() -> Iterator[tuple[Cell, float]]:
    """Every run with its rate: of the methods that the study has on a task."""
    plans = {plan.task: plan for plan in PLANS["study"].tasks}
    for task, steps in TASKS.items():
        for method in METHODS.values():
            if method.name not in plans[task].methods or (method.needs_fact and task != "cartpole_family"):
                continue
            name = "lr" if method.kind == "rllib" else "learning_rate"
            for rate in RATES:
                for seed in SEEDS:
                    yield Cell(method.name, task, seed, steps, 5, plans[task].episodes_per_update, {name: rate}), rate


def run(cell: Cell) -> list[dict[str, Any]]:
    """Run one, in a process of its own; one that diverged counts as it was at its start."""
    logging.disable(logging.WARNING)
    rows: list[dict[str, Any]] = []
    try:
        rows.extend(row.as_json for row in run_cell(cell))
    except DivergenceError:
        rows = rows[:1] * (cell.points + 1)
    return rows


def chosen(found: Mapping[str, Mapping[str, Mapping[float, float]]]) -> dict[str, float]:
    """By method, the rate with the lowest mean rank; ``found`` has by method, task and rate how good it was."""
    best = {}
    for method, by_task in found.items():
        ranks: defaultdict[float, list[int]] = defaultdict(list)
        for by_rate in by_task.values():
            for rank, rate in enumerate(sorted(RATES, key=lambda each: -by_rate[each])):
                ranks[rate].append(rank)
        middle = len(RATES) // 2
        best[method] = min(RATES, key=lambda rate: (fmean(ranks[rate]), abs(RATES.index(rate) - middle)))
    return best


def main() -> None:
    """Run all, print the rates, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the record")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    all_cells = list(cells())
    runs = []
    with get_context("spawn").Pool(arguments.processes, maxtasksperchild=20) as pool:
        for done, rows in enumerate(pool.imap(run, [cell for cell, _ in all_cells]), 1):
            runs.append(rows)
            print(f"{done} of {len(all_cells)} runs", end="\r", file=sys.stderr, flush=True)
    scores: defaultdict[str, defaultdict[str, defaultdict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for (cell, rate), rows in zip(all_cells, runs, strict=True):
        scores[cell.method][cell.task][rate].append(fmean(map(goodness, rows[LATE:])))
    means = {
        method: {task: {rate: fmean(values) for rate, values in by_rate.items()} for task, by_rate in by_task.items()}
        for method, by_task in scores.items()
    }
    best = chosen(means)
    for method, by_task in means.items():
        print(f"{method}: {best[method]:g}")
        for task, by_rate in by_task.items():
            print(f"  {task:20}" + "".join(f"{rate:>9g}: {value:8.3f}" for rate, value in by_rate.items()))
    machine = provenance()
    record = {
        "commit": commit(), "machine": f"{machine['cpus']} cores, {machine['processor']}",
        "tasks": TASKS, "seeds": SEEDS, "chosen": best, "means": means,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
