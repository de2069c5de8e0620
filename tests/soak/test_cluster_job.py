"""One training as a job on a Ray cluster that is stopped, killed and restarted, with its replay server elsewhere.

Every step is recorded; ``ENTENTE_RECORD`` names a file for the record.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from cluster.drill.reconciliation import balance, read_reconciliation
from cluster.drill.replay_client import ReplayClient
from cluster.runs.folder import RunFolder, audits, episodes_used, last_update
from cluster.runs.provenance import commit, provenance
from cluster.runtime.replay.addresses import PASSWORD_VARIABLE
from grpo_core.checkpoints.folders import checkpoint_versions
from services.replay.server.embedded import EmbeddedServer
from tests.paths import ROOT
from tests.system.support.ray_head import RayHead
from tests.system.support.training_process import PATIENCE_S, QUICK

EPISODES = 14  # of one update of smoke.toml
GAIN = 3  # updates of each job before it is disturbed
STOP_WAIT_S = 240


@dataclass
class Step:
    """What was done to the job, and what followed."""

    did: str
    update: int  # the newest when it was done
    seconds: float  # until the job's driver was gone, or it had made further updates
    status: str  # of the job, as Ray reports it
    checkpoint: int  # newest durable one afterwards
    said: str  # the driver's last line


@dataclass
class Story:
    """One training, job after job."""

    run_dir: Path
    entrypoint: list[str]
    head: RayHead
    jobs: int = 0
    steps: list[Step] = field(default_factory=list)

    @property
    def job(self) -> str:
        return f"job-{self.jobs}"

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S:g} s:\n{self.head.log(self.job)}"
            time.sleep(0.1)

    def submit(self, *changes: str) -> None:
        """Submit the same command again; wait until the job has made further updates, or has ended."""
        self.jobs += 1
        before, start = last_update(self.run_dir), time.monotonic()
        client = self.head.submit(self.job, ROOT, [*self.entrypoint, *changes])
        self.wait(
            lambda: last_update(self.run_dir) >= before + GAIN or self.head.status(self.job) in ("SUCCEEDED", "FAILED"),
            "further updates",
        )
        client.kill()  # the job goes on without its terminal
        client.communicate(timeout=60)
        self.note("submitted the job", before, start)

    def note(self, did: str, update: int, start: float, status: str | None = None) -> None:
        newest = max(checkpoint_versions(self.run_dir), default=0)
        lines = self.head.log(self.job).strip().splitlines() or [""]
        seconds = round(time.monotonic() - start, 1)
        known = self.head.status(self.job) if status is None else status
        self.steps.append(Step(did, update, seconds, known, newest, lines[-1][:300]))
        print(self.steps[-1])

    def driver(self) -> psutil.Process:
        [found] = [
            process
            for process in self.head.family()
            if "-m cluster.train" in " ".join(process.cmdline()) and process.name().startswith("python")
        ]
        return found

    def stop(self) -> None:
        before, start = last_update(self.run_dir), time.monotonic()
        assert self.head.request("POST", f"/api/jobs/{self.job}/stop") == {"stopped": True}
        self.wait(lambda: self.head.status(self.job) == "STOPPED", "stop")
        self.note("stopped the job", before, start)
        assert max(checkpoint_versions(self.run_dir)) == last_update(self.run_dir)
        assert "stopped; continue with: the same command" in self.head.log(self.job)

    def kill_driver(self) -> None:
        before, start, driver = last_update(self.run_dir), time.monotonic(), self.driver()
        driver.kill()
        self.wait(lambda: self.head.status(self.job) == "FAILED", "end of the job")
        self.note("killed the driver", before, start)

    def kill_control_service(self) -> None:
        """Kill Ray's control service; ``ray start`` then ends the whole head, also while the run saves."""
        before, start = last_update(self.run_dir), time.monotonic()
        driver = self.driver()
        [service] = [process for process in self.head.family() if process.name() == "gcs_server"]
        service.kill()
        self.wait(lambda: not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE, "end of the driver")
        self.note("killed Ray's control service", before, start, status="(the cluster is gone)")


def test_a_job_that_is_stopped_killed_and_moved_to_a_new_cluster_uses_every_episode_once(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with EmbeddedServer.start(tmp_path / "server") as server:
        parts = urlsplit(server.url)
        assert parts.password
        entrypoint = [
            sys.executable, "-m", "cluster.train", "cluster/configs/smoke.toml", "--run-dir", str(run_dir),
            "--start-or-resume", *QUICK, "--set", "learner.checkpoint_every=4",
            "--set", f"redis.url=redis://{parts.hostname}:{parts.port}/0",
        ]  # fmt: skip
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S), PASSWORD_VARIABLE: parts.password}
        endless = ("--set", "learner.updates=100000")
        with RayHead(variables) as head:
            story = Story(run_dir, entrypoint, head)
            story.submit(*endless)
            story.stop()
            story.submit(*endless)
            story.kill_driver()
            story.submit(*endless)
            story.kill_control_service()
        with RayHead(variables) as head:
            story.head = head
            updates = last_update(run_dir) + GAIN
            story.submit("--set", f"learner.updates={updates}")
            story.wait(lambda: head.status(story.job) == "SUCCEEDED", "success")
            assert head.status(story.job) == "SUCCEEDED", head.log(story.job)
            family = head.family()
        assert psutil.wait_procs(family, timeout=120)[1] == []
        with ReplayClient(server.url, RunFolder(run_dir).run_id) as client:
            found = read_reconciliation(run_dir, client, ())
    wrong, used = balance(found), episodes_used(run_dir)
    record = {
        "commit": commit(),
        "machine": provenance(),
        "steps": [asdict(step) for step in story.steps],
        "episodes": {
            "stored": len(found.stored),
            "used": len(used),
            "waiting": len(found.waiting),
            "set_aside": len(found.poison),
            "lost": len(wrong.lost),
            "used_twice": len(wrong.used_twice),
        },
        "updates": sorted(audits(run_dir))[-1],
    }
    if path := os.environ.get("ENTENTE_RECORD"):
        Path(path).write_text(json.dumps(record, indent=1) + "\n")
    assert not wrong.lost
    assert not wrong.used_twice
    assert not wrong.unknown
    assert set(used.values()) == {1}
    assert sorted(audits(run_dir)) == list(range(1, updates + 1))
    assert found.acknowledged_counted == len(used)
