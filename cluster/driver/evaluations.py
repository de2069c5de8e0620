"""The evaluations of a run: which ones are due at a version, and those of them that are not recorded are made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cluster.configs.schema import Config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.driver.rollout_pool import RolloutPool
from cluster.driver.run_summary import MUTED, TRAINED
from cluster.evaluation.evaluation_games import evaluation_row, saved_first
from cluster.imitation.control import CONTROL, make_control
from cluster.imitation.warm_start import evaluate_folder
from cluster.runs.folder import RunFolder
from cluster.runs.imitation_report import UNTRAINED
from cluster.runs.provenance import commit
from grpo_core.checkpoints.atomic_write import writing
from grpo_core.files import file_name

FIRST, IMITATED, LAST = "untrained", "imitated", TRAINED


def due_evaluations(config: Config, version: int) -> list[tuple[str, str]]:
    """List the evaluations due after ``version`` updates, as label and opponent; a resumed run may have made some."""
    evaluation, updates = config.evaluation, config.learner.updates
    if version == 0:
        return [(IMITATED if config.imitation.wanted else FIRST, against) for against in evaluation.against]
    if version >= updates:
        last = [(LAST, against) for against in dict.fromkeys((*evaluation.against, *evaluation.final_against))]
        return [*last, *((MUTED, against) for _, against in last if config.world.evaluates_muted(evaluation))]
    if evaluation.every and version % evaluation.every == 0:
        return [(f"v{version}", against) for against in evaluation.against]
    return []


def evaluate_due(config: Config, folder: RunFolder, pool: RolloutPool, recorder: MetricsRecorder, version: int) -> bool:
    """Make the evaluations that are due at ``version`` and not recorded; return whether there were any.

    A process may have ended between an update and its evaluations, or between two of these.
    """
    made = version == 0 and config.imitation.wanted and _evaluate_before_imitation(config, folder, pool, recorder)
    for label, against in due_evaluations(config, version):
        if not recorder.has_evaluation(label, f"checkpoints/{version}", against):
            _evaluate(config, folder, pool, recorder, version, against, label)
            made = True
    if version >= config.learner.updates and config.imitation.wanted and config.imitation.control != "none":
        made |= _evaluate_control(config, folder, pool, recorder)
    return made


def _evaluate_before_imitation(config: Config, folder: RunFolder, pool: RolloutPool, recorder: MetricsRecorder) -> bool:
    checkpoint = f"{folder.imitated.name}/{UNTRAINED}"
    return _evaluate_beside(config, FIRST, checkpoint, config.evaluation.against, folder, pool, recorder)


def _evaluate_control(config: Config, folder: RunFolder, pool: RolloutPool, recorder: MetricsRecorder) -> bool:
    against = tuple(name for label, name in due_evaluations(config, config.learner.updates) if label == LAST)
    if all(recorder.has_evaluation(CONTROL, CONTROL, name) for name in against):
        return False
    with recorder.evaluating(pool.stats):
        make_control(config, folder.imitated, folder.path / CONTROL, recorder.training_seconds, recorder.display)
    return _evaluate_beside(config, CONTROL, CONTROL, against, folder, pool, recorder)


def _evaluate_beside(
    config: Config,
    label: str,
    checkpoint: str,
    against: Sequence[str],
    folder: RunFolder,
    pool: RolloutPool,
    recorder: MetricsRecorder,
) -> bool:
    """Evaluate a policy in the run's folder that is no checkpoint; return whether anything was left to do."""
    lacking = [name for name in against if not recorder.has_evaluation(label, checkpoint, name)]

    def record(label: str, row: dict[str, Any], seconds: float) -> None:
        recorder.evaluation(label, {**row, "checkpoint": checkpoint}, seconds)

    with recorder.evaluating(pool.stats):
        evaluate_folder(config, lacking, label, folder.path / checkpoint, recorder.display.stage, record)
    return bool(lacking)


def _evaluate(
    config: Config,
    folder: RunFolder,
    pool: RolloutPool,
    recorder: MetricsRecorder,
    version: int,
    against: str,
    label: str,
) -> None:
    """Play the policy in each role alike against one anchor; one game of each role is saved."""
    settings, world = config.evaluation, config.world
    is_muted = label == MUTED
    saved = folder.games / file_name(f"{label}-{against}")
    with writing(saved):
        saved.mkdir(parents=True, exist_ok=True)
    games = saved_first(world.evaluation_games(settings, against, config.run.seed), saved, commit())
    games = [replace(game, is_muted=is_muted) for game in games]
    recorder.display.stage(f"evaluating the {label} policy {world.opposition(against)}", total=len(games))
    start = time.monotonic()
    with recorder.evaluating(pool.stats):
        results = pool.evaluate(games, recorder.display.advance, config.rollout.block_timeout_s)
    row = evaluation_row(world, settings, results, checkpoint=f"checkpoints/{version}", against=against)
    recorder.evaluation(label, row, time.monotonic() - start, sorted(saved.glob("*.json")))
