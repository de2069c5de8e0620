"""How a drill ends a run, with small programs in the run's place."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster.drill.endings
from cluster.drill.endings import end_run
from cluster.drill.training_process import DrillFailedError, TrainingProcess

PROGRAM = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
def end(number, frame):
    {at_signal}
    print("stopped; continue with ...", flush=True)
    sys.exit({status})
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def training(tmp_path: Path) -> Iterator[TrainingProcess]:
    process = TrainingProcess(tmp_path, tmp_path / "config.toml", tmp_path / "log")
    yield process
    process.close()


def start(training: TrainingProcess, at_signal: str = "child.kill()", status: int = 130) -> None:
    training._command = [sys.executable, "-S", "-c", PROGRAM.format(at_signal=at_signal, status=status)]
    training.start()
    training.wait(lambda: training.last_line() == "up", "program", 60.0)


def test_an_ending_has_the_status_the_time_and_the_last_line(training: TrainingProcess) -> None:
    start(training)
    ending = end_run(training, signal.SIGTERM, to_all=False)
    assert ending.status == 130
    assert ending.said == "stopped; continue with ..."
    assert ending.seconds >= 0


def test_a_signal_to_all_reaches_the_runs_children(training: TrainingProcess) -> None:
    start(training, at_signal="pass  # the child gets its own signal")
    training.wait(lambda: len(training.family()) == 2, "child", 60.0)
    assert end_run(training, signal.SIGTERM, to_all=True).status == 130


def test_another_exit_status_fails_the_drill(training: TrainingProcess) -> None:
    start(training, status=1)
    with pytest.raises(DrillFailedError, match="at SIGTERM the run ended with status 1: stopped; continue"):
        end_run(training, signal.SIGTERM, to_all=False)


def test_a_process_that_stays_fails_the_drill(training: TrainingProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    start(training, at_signal="pass  # the child stays")
    training.wait(lambda: len(training.family()) == 2, "child", 60.0)
    monkeypatch.setattr(cluster.drill.endings, "END_TIMEOUT_S", 0.5)
    with pytest.raises(DrillFailedError, match="1 of the run's processes outlived SIGTERM"):
        end_run(training, signal.SIGTERM, to_all=False)
