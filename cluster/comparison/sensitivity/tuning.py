"""Trials of a method with settings from their whole ranges: Optuna proposes, Ray Tune runs."""

from __future__ import annotations

import json
import logging
import os
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import optuna
from optuna.distributions import FloatDistribution
from ray import tune
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

from cluster.comparison.cell import Cell, run_cell
from cluster.comparison.sensitivity.ranges import EPISODES, RANGES, values
from cluster.comparison.sensitivity.trials import RETURN, Study, Trial, goodness, write_trial
from cluster.errors import RunError
from grpo_core.errors import DivergenceError, one_line


def tune_settings(
    study: Study, folder: Path, done: Sequence[Trial], processes: int, advance: Callable[[int], None]
) -> None:
    """Run the trials that are missing on the Ray that runs; raises RunError if one of them fails."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    # Tune's own tables and logs would repeat what the progress bar and the trials' files say.
    os.environ.update(RAY_AIR_NEW_OUTPUT="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1")
    names = [each.name for each in RANGES]
    # One half at random, to see every part of the ranges; the other where returns were good.
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=study.trials // 2, multivariate=True, constant_liar=True, seed=study.seed + len(done)
    )
    known: dict[str, Any] = {}
    if done:
        known["points_to_evaluate"] = [dict(zip(names, trial.places, strict=True)) for trial in done]
        known["evaluated_rewards"] = [trial.returns(study.points)[-1] for trial in done]
    space: Any = {name: FloatDistribution(0.0, 1.0) for name in names}
    proposing = OptunaSearch(space, metric=RETURN, mode="max", sampler=sampler, **known)

    # What Tune writes itself is of no use afterwards: trials keep their own files.
    with TemporaryDirectory(prefix="entente-tune-") as scratch:
        found = tune.Tuner(
            tune.with_resources(tune.with_parameters(_trial, study=study, folder=str(folder.resolve())), {"cpu": 1}),
            tune_config=tune.TuneConfig(
                metric=RETURN, mode="max", num_samples=study.trials - len(done), reuse_actors=True,
                search_alg=ConcurrencyLimiter(proposing, max_concurrent=processes),
            ),
            run_config=tune.RunConfig(
                name="tune", storage_path=scratch, verbose=0, callbacks=[_Advance(advance)]
            ),
        ).fit()  # fmt: skip
    if found.errors:
        raise RunError(f"a trial of {study.method} on {study.task} failed: {one_line(found.errors[0], 300)}")


class _Advance(tune.Callback):  # type: ignore[misc]  # Ray has no types
    """Tells the progress bar; Tune saves its callbacks, and a bar cannot be saved."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:  # noqa: ARG002
        self._advance(1)


def _trial(config: Mapping[str, float], study: Study, folder: str) -> None:
    """Run one trial in a process of its own, report each measurement, and keep all."""
    places = [float(config[each.name]) for each in RANGES]
    settings = values(places)
    cell = Cell(
        study.method, study.task, zlib.crc32(json.dumps(places).encode()), study.steps, study.points,
        int(settings.pop(EPISODES)), settings,
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    error = ""
    try:
        for row in run_cell(cell):
            rows.append(row.as_json)
            tune.report({RETURN: goodness(row.as_json), "steps": row.steps})
    except DivergenceError as diverged:
        error = str(diverged)
        tune.report({RETURN: goodness(rows[0]), "steps": study.steps})
    write_trial(Path(folder), f"{cell.seed:08x}", places, rows, error)
