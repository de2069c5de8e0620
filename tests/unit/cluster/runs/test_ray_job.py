"""A submitted job: its cluster, its run folder, one command that starts or resumes, and the time it has to stop."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import ray

import cluster.runtime.ray_session
from cluster.configs.loader import load_config
from cluster.errors import ConfigError, RunError
from cluster.runs.folder import RunFolder
from cluster.runs.ray_job import JOB_VARIABLE, STOP_VARIABLE, check_run_dir, in_job, on_its_cluster, short_stop
from cluster.runs.run_request import RunRequest, requested_run
from cluster.runtime.ray_session import ray_cluster

CONFIG = load_config("smoke")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This process is a job's driver; its working directory is a copy that Ray made."""
    copy = tmp_path / "copy"
    copy.mkdir()
    monkeypatch.chdir(copy)
    facts = {"runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}, "metadata": {}}
    monkeypatch.setenv(JOB_VARIABLE, json.dumps(facts))
    return copy


def start_or_resume(run_dir: Path, *overrides: str) -> RunRequest:
    return requested_run("smoke", overrides, run_dir, resume=False, start_or_resume=True)


def begin(request: RunRequest) -> RunFolder:
    """Start a run as training does, up to a fake first checkpoint."""
    folder = RunFolder(request.run_dir)
    folder.open(request.config, resume=request.resume)
    (folder.checkpoints / "0").mkdir(exist_ok=True)
    (folder.checkpoints / "0" / "manifest.json").write_text("{}")
    return folder


def test_the_same_command_starts_a_run_and_resumes_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start_or_resume(run)
    assert not first.resume
    folder = begin(first)
    name = folder.run_id
    again = start_or_resume(run)
    assert again == RunRequest(first.config, run, resume=True)
    begin(again)
    assert folder.run_id == name
    # The command's settings count, not the stored ones: more updates make the run longer ...
    assert start_or_resume(run, "learner.updates=40").config.learner.updates == 40
    # ... and settings that the stored run depends on cannot change.
    with pytest.raises(RunError, match=r"run\.seed cannot change"):
        start_or_resume(run, "run.seed=5")


def test_a_run_without_a_checkpoint_is_started_again(tmp_path: Path) -> None:
    RunFolder(tmp_path).open(CONFIG, resume=False)
    assert not start_or_resume(tmp_path, "run.seed=5").resume


def test_missing_and_contradicting_run_options_are_refused(tmp_path: Path) -> None:
    for source, run_dir, resume, both, hint in (
        (None, tmp_path, False, False, "name a config"),
        (None, tmp_path, False, True, "name a config"),
        (None, None, True, False, "--run-dir"),
        ("smoke", tmp_path, True, True, "one of them"),
    ):
        with pytest.raises(ConfigError, match=hint):
            requested_run(source, (), run_dir, resume=resume, start_or_resume=both)
    assert requested_run("smoke", ["run.name=x"], None, resume=False, start_or_resume=False).run_dir == Path("runs/x")


def test_a_job_trains_on_its_own_cluster(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_job()
    assert on_its_cluster(CONFIG).run.ray_address == "auto"
    named = load_config("smoke", ["run.ray_address=10.0.0.1:6379"])
    assert on_its_cluster(named) == named
    assert start_or_resume(job.parent / "run").config.run.ray_address == "auto"
    monkeypatch.delenv(JOB_VARIABLE)
    assert not in_job()
    assert on_its_cluster(CONFIG) == CONFIG


@pytest.mark.parametrize("inside", ["runs/x", "."])
def test_a_run_folder_in_a_jobs_temporary_directory_is_refused(
    job: Path, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_dir in (Path(inside), job / inside):
        with pytest.raises(RunError, match="absolute folder"):
            start_or_resume(run_dir)
    with pytest.raises(RunError, match="absolute folder"):  # where no folder is given
        requested_run("smoke", (), None, resume=False, start_or_resume=False)
    check_run_dir(job.parent / "run")
    # Without a working directory of its own a job runs where Ray was started, and that folder is permanent.
    monkeypatch.setenv(JOB_VARIABLE, json.dumps({"runtime_env": {"env_vars": {"A": "1"}}, "metadata": {}}))
    check_run_dir(Path(inside))
    monkeypatch.delenv(JOB_VARIABLE)
    check_run_dir(Path(inside))


def test_a_job_warns_when_ray_would_kill_it_before_it_has_saved(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STOP_VARIABLE, raising=False)
    warning = short_stop(CONFIG.redis, save_s=60)
    assert warning is not None
    assert "after 3 s" in warning
    longest = warning.partition(f"{STOP_VARIABLE}=")[2].partition(" ")[0]
    monkeypatch.setenv(STOP_VARIABLE, longest)
    assert short_stop(CONFIG.redis, save_s=60) is None
    assert short_stop(CONFIG.redis, save_s=61) is not None
    monkeypatch.delenv(JOB_VARIABLE)
    assert short_stop(CONFIG.redis, save_s=61) is None


def test_a_sigterm_while_ray_starts_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive_sigterm(**_: object) -> None:
        sys.exit(1)  # as Ray's own handler does

    monkeypatch.setattr(ray, "init", receive_sigterm)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(KeyboardInterrupt), ray_cluster("auto", 1, embedded_replay=True):
        pass


def test_a_cluster_whose_machines_cannot_reach_the_replay_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"NodeManagerAddress": f"10.0.0.{number}", "Alive": number < 3} for number in (1, 2, 3)]
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(cluster.runtime.ray_session, "stop_at_signals", lambda: None)
    monkeypatch.setattr(cluster.runtime.ray_session, "ray_watched", lambda **_: nullcontext())
    monkeypatch.setattr(os, "environ", dict(os.environ))  # ray_cluster sets variables that Ray reads at import
    with pytest.raises(RunError, match=r"2 machines.* set redis\.url"), ray_cluster("auto", 1, embedded_replay=True):
        pass
    with ray_cluster("auto", 1, embedded_replay=False):
        pass
    nodes[1]["Alive"] = False
    with ray_cluster("auto", 1, embedded_replay=True):
        pass
