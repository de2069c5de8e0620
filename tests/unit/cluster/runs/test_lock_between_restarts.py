"""The lock on a run folder while its run is lost and starts again."""

from __future__ import annotations

from pathlib import Path

import pytest

import cluster.driver.training
import cluster.runs.restarts
import cluster.runtime.stop_signals
from cluster.cli.app import app
from cluster.errors import LostError
from cluster.runs.folder import RunFolder
from cluster.runtime.local_ray import LOOPBACK_VARIABLE


def test_no_other_process_can_take_the_folder_between_two_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    locked: list[tuple[str, bool]] = []

    def lost_once(*_: object, **__: object) -> None:
        locked.append(("training", folder.in_use()))
        if len(locked) == 1:
            raise LostError("the learner died")

    def note_restart(*_: object) -> None:
        locked.append(("between", folder.in_use()))

    monkeypatch.setattr(cluster.runtime.stop_signals, "stop_at_signals", lambda: None)
    monkeypatch.setattr(cluster.driver.training, "check_machine", lambda _: None)
    monkeypatch.setattr(cluster.runs.restarts, "PAUSES_S", (0.0,))
    monkeypatch.setattr(cluster.driver.training, "train", lost_once)
    monkeypatch.setattr(cluster.runs.restarts, "note_restart", note_restart)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # no token is made
    monkeypatch.setenv(LOOPBACK_VARIABLE, "0")  # which the command would set for good
    app(["train", "smoke", "--run-dir", str(folder.path)], standalone_mode=False)
    assert locked == [("training", True), ("between", True), ("training", True)]
    assert not folder.in_use()
