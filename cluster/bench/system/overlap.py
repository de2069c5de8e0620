"""The same training with and without overlap of rollouts and learner.

With ``rollout.max_staleness = 0`` games start when the weights of the last update have arrived, and the learner starts
when the last game is over. Both trainings start from the same weights and take as many episodes of the same line-up
blocks; every round has another seed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.bench.figure import Figure
from cluster.errors import RunError
from cluster.runs.counters import OVERLAP
from services.metrics.jsonl import read_metrics

UPDATES = 40
STALENESS = 1  # of the training that overlaps; the default
RUN_TIMEOUT_S = 3600.0
YARDSTICK = "rollout.max_staleness = 0"
_CLOCK = "entente_run_seconds_total"
_OVERRIDES = (
    f"learner.updates={UPDATES}",
    "evaluation.against=[]",
    'evaluation.final_against=["random","dumbbot"]',
    "evaluation.games_per_country=20",
    "metrics.display=false",
)


@dataclass(frozen=True, slots=True)
class Trained:
    """The measurements of one training."""

    seconds: float  # of training alone, without evaluations
    learner: float  # share of them in which the learner was busy
    rollouts: float  # in which an actor's engine was busy
    both: float  # in which games were played while the learner learned
    centers: dict[str, float]  # mean supply centres afterwards, by the bots in the six other seats
    ci95: dict[str, tuple[float, float]]


def run(rounds: int) -> list[Figure]:
    """Train both ways, in turn: speed, and strength after as many episodes."""
    overlapping: list[Trained] = []
    in_turn: list[Trained] = []
    with tempfile.TemporaryDirectory(prefix="entente-overlap-") as folder:
        for seed in range(rounds):
            for staleness, trained in ((STALENESS, overlapping), (0, in_turn)):
                trained.append(train(Path(folder) / f"{staleness}-{seed}", seed, staleness))
    return figures(overlapping, in_turn)


def figures(overlapping: list[Trained], in_turn: list[Trained]) -> list[Figure]:
    """Compare the two ways by medians of times and means of strengths."""
    ours, theirs = (statistics.median(each.seconds for each in way) for way in (overlapping, in_turn))
    note = f"{busy_shares('overlapping', overlapping)}; {busy_shares('in turn', in_turn)}"
    found = [Figure(f"{UPDATES} updates of laptop.toml", "s", ours, theirs, YARDSTICK, lower_is_better=True, note=note)]
    for against in overlapping[0].centers:
        ours, theirs = (statistics.fmean(each.centers[against] for each in way) for way in (overlapping, in_turn))
        note = f"by seed: {by_seed(overlapping, against)}; in turn: {by_seed(in_turn, against)}"
        found.append(Figure(f"centres against six {against} after them", "centres", ours, theirs, YARDSTICK, note=note))
    return found


def by_seed(way: list[Trained], against: str) -> str:
    """Mean centres with intervals over games."""
    return ", ".join("{:.2f} [{:.2f}, {:.2f}]".format(each.centers[against], *each.ci95[against]) for each in way)


def busy_shares(name: str, way: list[Trained]) -> str:
    """The busy times of learner and engine, mean over the trainings of one way."""
    learner, rollouts, both = (
        statistics.fmean(getattr(each, part) for each in way) for part in ("learner", "rollouts", "both")
    )
    return f"{name}: learner busy {learner:.0%} of the time, engine {rollouts:.0%}, both at once {both:.0%}"


def train(folder: Path, seed: int, staleness: int) -> Trained:
    """Run one training in its own process, as a user does. Raises RunError with its last line if it failed."""
    overrides = (*_OVERRIDES, f"rollout.max_staleness={staleness}", f"run.seed={seed}")
    command = [sys.executable, "-m", "cluster.cli", "train", "laptop", "--run-dir", str(folder)]
    command += [word for each in overrides for word in ("--set", each)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RunError(f"a training to be measured failed: {(done.stdout.strip().splitlines() or ['no output'])[-1]}")
    return read(folder)


def read(folder: Path) -> Trained:
    """The measurements in a finished training's files."""
    lines = [line.metrics for line in read_metrics(folder / "metrics.jsonl") if _CLOCK in line.metrics]
    end: Mapping[str, Any] = lines[-1]
    seconds = float(end[_CLOCK])
    rows = json.loads((folder / "summary.json").read_text())["evaluations"]
    return Trained(
        seconds=seconds,
        learner=end["entente_learner_busy_seconds_total"] / seconds,
        rollouts=end["entente_rollout_busy_seconds_total"] / seconds / end["entente_workers"],
        both=end[OVERLAP] / seconds,
        centers={row["against"]: row["mean_centers"] for row in rows},
        ci95={row["against"]: tuple(row["mean_centers_ci95"]) for row in rows},
    )
