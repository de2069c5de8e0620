"""A study of settings, from its folder: what is done is kept, and resuming runs the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster.comparison.sensitivity.trials import TRIALS, Study, Trial, claim, read_trials
from cluster.runtime.local_ray import local_ray, prepare_local_ray


def search(
    study: Study, out: Path, *, resume: bool, processes: int, notice: Callable[[str], None],
    begin: Callable[[int], None], advance: Callable[[int], None],
) -> list[Trial]:  # fmt: skip
    """Run what is not done yet; ``begin`` gets the number of all trials, ``advance`` each that is over.

    Raises RunError where ``out`` holds another study, or one without ``resume``, and where a trial fails.
    """
    claim(out, study, resume=resume)
    folder = out / TRIALS
    folder.mkdir(parents=True, exist_ok=True)
    done = read_trials(folder)
    begin(study.trials)
    advance(min(len(done), study.trials))
    if len(done) < study.trials:
        prepare_local_ray()
        from cluster.comparison.sensitivity.tuning import tune_settings  # Ray is imported once it is prepared

        with local_ray(processes, notice):
            tune_settings(study, folder, done, processes, advance)
    return read_trials(folder)
