"""Provenance is read once in a process, before the training loop."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import load_config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.runs import provenance
from cluster.runs.folder import RunFolder
from services.metrics.display.display import Display


def test_the_summary_keeps_the_provenance_read_at_the_start(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (calls.append(a), run(*a, **k))[1])
    for function in (provenance.commit, provenance.provenance):
        function.cache_clear()
    config, folder = load_config("smoke"), RunFolder(tmp_path)
    folder.open(config, resume=False)
    recorder = MetricsRecorder(config, folder, Display(1, enabled=False), None)
    assert calls, "the recorder reads the commit when it starts"
    calls.clear()
    monkeypatch.setattr("cluster.runs.provenance._processor", lambda: pytest.fail("read again"))
    for _ in range(2):
        recorder.training_begins()
        recorder.training_ends()
    assert not calls
    summary = folder.read_summary()
    assert summary["commit"] == provenance.commit()
    assert summary["provenance"] == provenance.provenance()


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    command = ("git", *who, *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_a_package_installed_inside_another_project_does_not_take_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / ".venv" / "provenance.py"
    installed.parent.mkdir()
    shutil.copy(provenance.__file__, installed)
    monkeypatch.setattr(provenance, "__file__", str(installed))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "theirs")
    provenance.commit.cache_clear()
    try:
        assert provenance.commit() == provenance.UNKNOWN
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", "its own checkout")
        provenance.commit.cache_clear()
        assert provenance.commit() == git(tmp_path, "rev-parse", "--short=12", "HEAD")
    finally:
        provenance.commit.cache_clear()
