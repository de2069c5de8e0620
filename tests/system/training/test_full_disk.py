"""A run whose disk is full or read-only: it ends with one line, and goes on once files can be written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

import pytest

from cluster.runs.folder import episodes_used, last_update
from grpo_core.checkpoints.folders import checkpoint_versions, verified_manifest
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

EPISODES = 14  # of one update of smoke.toml
SETTINGS = (
    *QUICK, "--set", "learner.checkpoint_every=1", "--set", "redis.answer_timeout_s=10",
    "--set", "evaluation.against=[]",
)  # fmt: skip
MANY = ("--set", "learner.updates=500")


def check_the_end(training: TrainingProcess, *words: str) -> None:
    """It ended with one line, and its newest checkpoint is whole."""
    assert training.finish() == 2, training.output()
    assert "Traceback" not in training.output()
    (line,) = [line for line in training.output().splitlines() if line.startswith("error:")]
    for word in (*words, "go on with --resume"):
        assert word in line, line
    assert len(line) <= 520
    assert training.survivors() == []
    newest = checkpoint_versions(training.run_dir)[-1]
    verified_manifest(training.run_dir / "checkpoints" / str(newest))
    assert newest >= last_update(training.run_dir) - 1
    left = [path for path in training.run_dir.rglob("*") if "draft" in path.name or "partial" in path.name]
    assert not left


def finish(run: Path, *settings: str) -> None:
    """The run goes on to two further updates, and no episode was lost or used twice."""
    updates = last_update(run) + 2
    with TrainingProcess(run, *settings, "--set", f"learner.updates={updates}", "--resume", config=None) as training:
        assert training.finish() == 0, training.output()
    used = episodes_used(run)
    assert set(used.values()) == {1}
    assert len(used) == updates * EPISODES
    lines = [line.update for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics]
    assert lines == list(range(1, updates + 1))
    assert json.loads((run / "summary.json").read_text())["updates"] == updates


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A run folder that is a file system of its own; skips the test where none can be mounted."""
    folder = tmp_path / "run"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, timeout=60
    )
    if done.returncode:
        pytest.skip("no right to mount a file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=60)


def fill(file: BinaryIO) -> NoReturn:
    while True:
        file.write(b"0" * 65_536)


def test_a_full_disk_ends_a_run_with_one_line_and_loses_nothing(small_disk: Path) -> None:
    run, filler = small_disk, small_disk / "filler"
    with TrainingProcess(run, *SETTINGS, *MANY) as training:
        training.wait_until(lambda: last_update(run) >= 2, "two updates")
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            fill(file)
        check_the_end(training, "the disk is full", "free space there")
    with TrainingProcess(run, *SETTINGS, *MANY, "--resume", config=None) as training:
        check_the_end(training, "the disk is full")
    filler.unlink()
    finish(run, *SETTINGS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("size=200k", "could not start: cannot write {}/checkpoints/0: the disk is full; free space there, then start"),
        ("ro", "cannot write {}: the file system is read-only; make it writable"),
    ],
)
def test_a_run_that_cannot_write_its_first_files_ends_with_one_line(small_disk: Path, change: str, words: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{change}", str(small_disk)], check=True, timeout=60)
    with TrainingProcess(small_disk, *SETTINGS) as training:
        assert training.finish() == 2, training.output()
        (line,) = [line for line in training.output().splitlines() if line.startswith("error:")]
        assert words.format(small_disk) in line
        assert "Traceback" not in training.output()
        assert training.survivors() == []
