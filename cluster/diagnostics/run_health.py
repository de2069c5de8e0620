"""The state of a run, from its folder: progress, restarts, checkpoints, and the health of its training.

The checks are rules of thumb, each with advice. A run that has just begun has too few updates for most of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from cluster.configs.schema import Config
from cluster.diagnostics.finding import Finding, fault, ok, warn
from cluster.diagnostics.training_health import examine_training
from cluster.runs.counters import NONFINITE
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import restarts
from grpo_core.checkpoints.folders import checkpoint_versions, is_whole_checkpoint
from services.environments.settings import EvaluationSettings
from services.metrics.jsonl import MetricsLine, read_metrics

DAY_S = 86_400.0
FEW_RESTARTS = 2  # of the whole run within a day: machines do fail
UPDATES = "entente_updates_total"  # in every line that an update wrote, and in no other


def examine_run(path: Path, now: Callable[[], float] = time.time) -> list[Finding]:
    """Check the run in a folder, running or not; changes nothing. ``now`` returns unix seconds.

    Raises RunError if it has another format, ConfigError or MetricsError if its files are not what a run writes.
    """
    folder = RunFolder(path)
    if not folder.config.exists():
        return [fault("run", f"there is no run in {path} (no config.toml)")]
    config = folder.stored_config()
    recorded = read_metrics(folder.metrics) if folder.metrics.exists() else []
    lines = [line for line in recorded if UPDATES in line.metrics]
    findings = [*_progress(folder, config, recorded, now()), *_restarts(folder, now()), *_checkpoints(folder)]
    series = _series(lines)
    # A diverged update ends its run and writes a line with this metric alone.
    series[NONFINITE] = _series(recorded).get(NONFINITE, ())
    return [*findings, *examine_training(series, len(lines))]


def _series(lines: Sequence[MetricsLine]) -> dict[str, Sequence[float]]:
    series: dict[str, list[float]] = {}
    for line in lines:
        for name, value in line.metrics.items():
            if isinstance(value, float | int):
                series.setdefault(name, []).append(float(value))
    return dict(series)


def _progress(folder: RunFolder, config: Config, recorded: Sequence[MetricsLine], now: float) -> Iterator[Finding]:
    lines = [line for line in recorded if UPDATES in line.metrics]
    done, planned = (lines[-1].update if lines else 0), config.learner.updates
    state = f"{done} of {planned} updates"
    if folder.in_use():
        ago = now - recorded[-1].time if lines else 0.0
        usual = median([later.time - line.time for line, later in pairwise(lines)] or [ago])
        if _evaluates(config.evaluation, recorded, done) and ago < config.rollout.block_timeout_s:
            yield ok("run", f"under way, {state}; evaluating for {ago:.0f} s")
        elif lines and ago > max(10 * usual, 60.0) and done < planned:
            limit = config.rollout.update_timeout_s
            yield warn(
                "run",
                f"under way at {state}, but the last one was {ago:.0f} s ago and usually they take {usual:.0f} s; see "
                f"its log; it gives up by itself after {limit:.0f} s (rollout.update_timeout_s)",
            )
        else:
            yield ok("run", f"under way, {state}")
    elif done >= planned:
        yield ok("run", f"done, {state}")
    else:
        again = f"go on with: entente train --resume --run-dir {folder.path}"
        yield warn("run", f"stopped at {state}; {again}")


def _evaluates(evaluation: EvaluationSettings, recorded: Sequence[MetricsLine], done: int) -> bool:
    """Whether an evaluation is due after the newest update and not on record yet."""
    every = evaluation.every
    measured = sum(line.update == done and UPDATES not in line.metrics for line in recorded)
    return bool(every and done and done % every == 0 and measured < len(evaluation.against))


def _restarts(folder: RunFolder, now: float) -> Iterator[Finding]:
    lost = restarts(folder.path)
    if not lost:
        return
    lately = sum(now - restart.time < DAY_S for restart in lost)
    text = (
        f"the run was lost and went on by itself {len(lost)} times, {lately} of them within a day; the last time at "
        f"update {lost[-1].version}: {lost[-1].reason}"
    )
    if lately > FEW_RESTARTS:
        yield warn("restarts", f"{text}; what is lost again and again costs updates: see restarts.jsonl")
    else:
        yield ok("restarts", text)


def _checkpoints(folder: RunFolder) -> Iterator[Finding]:
    whole = list(checkpoint_versions(folder.path))
    torn = [path.name for path in folder.checkpoints.glob("[0-9]*") if not is_whole_checkpoint(path)]
    if not whole:
        yield warn("checkpoints", "there is none yet: a run that stops now starts from the beginning")
    elif torn:
        yield ok("checkpoints", f"the newest is {max(whole)}; {', '.join(sorted(torn))} half written, and not used")
    else:
        yield ok("checkpoints", f"the newest is {max(whole)}")
