"""``ray job submit`` on a real head: the terminal is lost, the job is stopped, submitted again, and finishes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import audits, episodes_used, last_update
from tests.paths import ROOT
from tests.system.support.ray_head import RayHead
from tests.system.support.training_process import PATIENCE_S, QUICK

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

UPDATES = 8
EPISODES = 14  # of one update of smoke.toml


def wait_until(
    condition: Callable[[], bool], what: str, head: RayHead, job: str, timeout_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {timeout_s} s:\n{head.log(job)}"
        assert head.status(job) != "FAILED", f"failed while waiting for {what}:\n{head.log(job)}"
        time.sleep(0.1)


def actor_folders(head: RayHead) -> list[Path]:
    """The working directories of the run's actors, where Python looks for modules first."""
    named = ((process.cmdline(), process) for process in head.family())
    return [
        Path(process.cwd()) for line, process in named if line and line[0].startswith("ray::") and "Actor" in line[0]
    ]


def copied(head: RayHead) -> set[str]:
    """The files of the working directory that were copied to the nodes."""
    copies = (head.folder / "session_latest" / "runtime_resources" / "working_dir_files").glob("_ray_pkg_*")
    [copy] = [path for path in copies if path.is_dir()]
    return {path.name for path in copy.iterdir()}


def test_a_job_survives_its_terminal_saves_when_stopped_and_resumes_when_resubmitted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    entrypoint = [
        sys.executable, "-m", "cluster.train", "cluster/configs/smoke.toml", "--run-dir", str(run), "--start-or-resume",
        *QUICK, "--set", f"learner.updates={UPDATES}", "--set", "learner.checkpoint_every=100",
    ]  # fmt: skip
    with RayHead({"RAY_JOB_STOP_WAIT_TIME_S": "240"}) as head:
        terminal = head.submit("first", ROOT, entrypoint)
        assert terminal.stdout is not None
        wait_until(lambda: (run / "checkpoints" / "0").exists(), "first checkpoint", head, "first")
        terminal.kill()
        terminal.wait(300)
        terminal.stdout.close()
        wait_until(lambda: last_update(run) >= 1, "update without a terminal", head, "first")
        folders = actor_folders(head)
        assert folders
        assert all("_ray_pkg_" in str(folder) for folder in folders)
        assert {"cluster", "grpo_core", "opponents", "services"} <= copied(head)
        assert not {".git", ".venv", "docker", "runs", "tests"} & copied(head)
        assert head.request("POST", "/api/jobs/first/stop") == {"stopped": True}
        wait_until(lambda: head.status("first") == "STOPPED", "end", head, "first")
        assert "stopped; continue with: the same command" in head.log("first")
        seen = last_update(run)
        assert 1 <= seen < UPDATES
        assert max(int(folder.name) for folder in (run / "checkpoints").glob("[0-9]*")) == seen, "the stop saved"
        before = {version: record["episodes"] for version, record in audits(run).items()}

        again = head.submit("second", ROOT, entrypoint)
        told, _ = again.communicate(timeout=600)
        assert again.returncode == 0, told
        assert f"resumed at version {seen}" in told
        left = [process for process in head.family() if "cluster.train" in " ".join(process.cmdline())]
        assert left == []
        family = head.family()
    assert psutil.wait_procs(family, timeout=120)[1] == []
    used = episodes_used(run)
    assert len(used) == UPDATES * EPISODES
    assert set(used.values()) == {1}
    assert {version: record["episodes"] for version, record in audits(run).items() if version in before} == before
