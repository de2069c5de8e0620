"""A process of a run may not write larger files: the run ends with one line, and goes on once it may."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import last_update
from tests.system.support.training_process import TrainingProcess
from tests.system.training.test_full_disk import MANY, SETTINGS, check_the_end, finish

pytestmark = pytest.mark.timeout(3600)


def limit_files(pid: int, size: int) -> None:
    """From now on the kernel refuses a process files of more than ``size`` bytes."""
    psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, (size, size))


def learner_of(training: TrainingProcess) -> int:
    training.look()
    (pid,) = [
        pid for pid, process in training.family.items()
        if process.is_running() and "LearnerActor" in " ".join(process.cmdline())
    ]  # fmt: skip
    return pid


def refuse_the_learner(training: TrainingProcess) -> None:
    limit_files(learner_of(training), 20_000)  # less than the weights


def refuse_the_driver(training: TrainingProcess) -> None:
    limit_files(training.process.pid, (training.run_dir / "metrics.jsonl").stat().st_size + 100)


def refuse_the_server(training: TrainingProcess) -> None:
    state = json.loads((training.run_dir / "redis" / "server.json").read_text())
    files = (training.run_dir / "redis" / "appendonlydir").iterdir()
    limit_files(state["pid"], max(file.stat().st_size for file in files) + 1000)


def test_a_run_whose_files_may_not_grow_ends_with_one_line_and_can_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for refuse, file in (
        (refuse_the_learner, "checkpoints/"), (refuse_the_driver, "metrics.jsonl"), (refuse_the_server, "redis"),
    ):  # fmt: skip
        begun = run.exists()
        with TrainingProcess(
            run, *SETTINGS, *MANY, *(("--resume",) if begun else ()), config=None if begun else "smoke"
        ) as training:
            before = last_update(run)
            training.wait_until(lambda before=before: last_update(run) > before, "an update")
            refuse(training)
            check_the_end(training, file, "ulimit -f")
    finish(run, *SETTINGS)
