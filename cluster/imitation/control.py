"""The control of a run that imitated first: the same policy, which goes on imitating while the run trains."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.imitation.warm_start import warm_start
from cluster.runs.imitation_report import ImitationTask, read_report
from services.metrics.display.display import Display

CONTROL = "control"  # folder in the run's, and label of its evaluations
_SHORT = 0.9  # of the time that it should take


def make_control(config: Config, imitated: Path, folder: Path, training_s: float, display: Display) -> None:
    """Let the imitated policy imitate into ``folder`` for at least as long as training took, ``training_s``.

    The number of passes, rounded up, follows from the time that those before took; a line says so if it was too short,
    as when other programs had slowed those before. With ``imitation.control = "fresh"`` there are that many more games
    of the teacher instead of further passes over the same ones.

    Raises RunError if the run's imitation left no report, or a process failed.
    """
    before = read_report(imitated)
    if before is None:
        raise RunError(f"{imitated} has no report of the imitation, which the control goes on from")
    settings = config.imitation
    passes = max(1, math.ceil(settings.epochs * training_s / max(before["training_seconds"], 1e-3)))
    changed: dict[str, int] = {"epochs": passes}
    first_game = 0
    if settings.control == "fresh":
        changed = {"games": max(2 * settings.processes, settings.games * passes // settings.epochs)}
        first_game = settings.games
    task = ImitationTask.of(config)
    policy = config.policy.model_copy(update={"path": str(imitated)})
    again = settings.model_copy(update=changed)
    warm_start(replace(task, policy=policy, settings=again, first_game=first_game), folder, display)
    after = read_report(folder)
    if after is not None and after["training_seconds"] < _SHORT * training_s:
        display.log(
            f"the control imitated for {after['training_seconds']:.0f} s and training took {training_s:.0f} s: "
            "imitation was slower before; train again without other programs for a fair control"
        )
