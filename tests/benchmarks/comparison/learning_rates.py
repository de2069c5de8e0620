"""The learning rates of ``entente compare``: ``python -m tests.benchmarks.comparison.learning_rates --out FILE``.

On each task that rates are tuned on every method that the study has there, or on a task of that kind, gets the same
five rates with the same two seeds, which the study does not have. A run counts with the mean of its last three
measurements of five, the one before training left out; the rate with the best mean over seeds is taken.

With ``--tasks`` only those are run, and FILE keeps what it has of the others.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from cluster.comparison.cell import Cell, run_cell
from cluster.comparison.learning_rates import RATES, TUNED_ON
from cluster.comparison.methods import METHODS
from cluster.comparison.plans import PLANS
from cluster.comparison.sensitivity.trials import goodness
from cluster.runs.provenance import commit, provenance
from grpo_core.errors import DivergenceError

SEEDS = (1000, 1001)
POINTS, LATE = 5, 3  # measurements in training, and how many of them count
BUDGETS = {
    "cartpole": 150_000, "cartpole_family": 60_000, "lunar_lander": 500_000, "inverted_pendulum": 100_000,
    "half_cheetah": 200_000, "leduc_poker": 60_000, "navigation": 30_000, "breakout": 30_000, "diplomacy_random": 700,
}  # fmt: skip


def pairs() -> list[tuple[str, str]]:
    """Every method with each task that it is tuned on: one of each kind that the study has it on."""
    found = [
        (method, TUNED_ON[plan.task])
        for plan in PLANS["study"].tasks
        for method in plan.methods
        if not METHODS[method].needs_fact or plan.task == "cartpole_family"
    ]
    return sorted(set(found), key=lambda pair: (list(BUDGETS).index(pair[1]), list(METHODS).index(pair[0])))


def cells(tasks: Collection[str]) -> Iterator[tuple[Cell, float]]:
    """Every run on these tasks with its rate."""
    plans = {plan.task: plan for plan in PLANS["study"].tasks}
    for method, task in pairs():
        if task not in tasks:
            continue
        name = "lr" if METHODS[method].kind == "rllib" else "learning_rate"
        per_update, unit = plans[task].episodes_per_update, plans[task].unit
        for rate in RATES:
            for seed in SEEDS:
                yield Cell(method, task, seed, BUDGETS[task], POINTS, per_update, {name: rate}, unit=unit), rate


def run(cell: Cell) -> list[float]:
    """Run one, in a process of its own: how good it was at each measurement; at its start where it had diverged."""
    logging.disable(logging.WARNING)
    found: list[float] = []
    try:
        found.extend(goodness(row.as_json) for row in run_cell(cell))
    except DivergenceError:
        found = found[:1] * (POINTS + 1)
    return found


def best_rate(by_rate: Mapping[str, list[list[float]]]) -> float:
    """The rate whose runs were best late in training; ``by_rate`` has the measurements of each seed."""
    return float(max(by_rate, key=lambda rate: fmean(fmean(course[-LATE:]) for course in by_rate[rate])))


def main() -> None:
    """Run all, print the rates, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the record")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tasks", nargs="+", choices=list(BUDGETS), default=list(BUDGETS))
    arguments = parser.parse_args()
    all_cells = list(cells(arguments.tasks))
    courses: defaultdict[str, defaultdict[str, defaultdict[str, list[list[float]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    with get_context("spawn").Pool(arguments.processes, maxtasksperchild=20) as pool:
        runs = pool.imap(run, [cell for cell, _ in all_cells])
        for done, ((cell, rate), course) in enumerate(zip(all_cells, runs, strict=True), 1):
            courses[cell.task][cell.method][f"{rate:g}"].append([round(value, 4) for value in course])
            print(f"{done} of {len(all_cells)} runs", end="\r", file=sys.stderr, flush=True)
    chosen = {
        task: {method: best_rate(by_rate) for method, by_rate in by_method.items()}
        for task, by_method in courses.items()
    }
    for task, by_method in chosen.items():
        print(task)
        for method, rate in by_method.items():
            late = {name: fmean(fmean(each[-LATE:]) for each in kept) for name, kept in courses[task][method].items()}
            print(f"  {method:16}{rate:<8g}" + "".join(f"{name:>8}: {value:8.3f}" for name, value in late.items()))
    before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    machine = provenance()
    runs_on = f"{commit()}, {machine['cpus']} cores, {machine['processor']}"
    record: dict[str, Any] = {
        "runs": before.get("runs", {}) | dict.fromkeys(arguments.tasks, runs_on),
        "budgets": BUDGETS,
        "seeds": SEEDS,
        "chosen": before.get("chosen", {}) | chosen,
        "courses": before.get("courses", {}) | courses,
    }
    arguments.out.write_text(json.dumps(record, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
