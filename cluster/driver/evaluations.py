"""The evaluations of a run: which ones are due at a version, and those of them that are not recorded are made."""

from __future__ import annotations

import time

from cluster.configs.schema import Config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.driver.rollout_pool import RolloutPool
from cluster.evaluation.evaluation_games import evaluation_games, summarize
from cluster.imitation.warm_start import evaluate_untrained
from cluster.runs.folder import RunFolder
from cluster.runs.imitation_report import UNTRAINED
from cluster.runs.provenance import commit
from grpo_core.checkpoints.atomic_write import writing

FIRST, IMITATED, LAST = "untrained", "imitated", "trained"


def due_evaluations(config: Config, version: int) -> list[tuple[str, str]]:
    """List the evaluations due after ``version`` updates, as label and opponent; a resumed run may have made some."""
    evaluation, updates = config.evaluation, config.learner.updates
    if version == 0:
        return [(IMITATED if config.imitation.wanted else FIRST, against) for against in evaluation.against]
    if version >= updates:
        return [(LAST, against) for against in dict.fromkeys((*evaluation.against, *evaluation.final_against))]
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
    return made


def _evaluate_before_imitation(config: Config, folder: RunFolder, pool: RolloutPool, recorder: MetricsRecorder) -> bool:
    evaluation, checkpoint = config.evaluation, f"{folder.imitated.name}/{UNTRAINED}"
    lacking = [against for against in evaluation.against if not recorder.has_evaluation(FIRST, checkpoint, against)]
    settings = evaluation.model_copy(update={"against": tuple(lacking)})
    with recorder.evaluating(pool.stats):
        evaluate_untrained(settings, config.run.seed, folder, recorder.display.stage, recorder.evaluation)
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
    """Play the policy as each country alike against six of one bot; one game of each country is saved."""
    settings = config.evaluation
    saved = folder.games / f"{label}-{against}"
    with writing(saved):
        saved.mkdir(parents=True, exist_ok=True)
    games = evaluation_games(against, settings.games_per_country, settings.until_year, config.run.seed, saved, commit())
    recorder.display.stage(f"evaluating the {label} policy against six {against}", total=len(games))
    start = time.monotonic()
    with recorder.evaluating(pool.stats):
        results = pool.evaluate(games, recorder.display.advance, config.rollout.block_timeout_s)
    row = summarize(results, checkpoint=f"checkpoints/{version}", against=against, until_year=settings.until_year)
    recorder.evaluation(label, row, time.monotonic() - start, sorted(saved.glob("*.json")))
