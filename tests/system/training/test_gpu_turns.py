"""A whole run whose learner and rollouts take turns, as on one GPU, with an actor that hangs during the run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cluster.runs.folder import audits, episodes_used, last_update
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


def test_a_run_by_turns_continues_when_its_actor_hangs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    turns = ("rollout.share_gpu_with_learner=true", "rollout.swap_timeout_s=30", "rollout.block_timeout_s=45")
    arguments = (*QUICK, *(part for key in turns for part in ("--set", key)))
    with TrainingProcess(run, *arguments) as training:
        training.wait_until(lambda: last_update(run) >= 1, "an update")
        training.look()
        (actor,) = [p for p in training.family.values() if p.is_running() and "RolloutActor" in " ".join(p.cmdline())]
        os.kill(actor.pid, signal.SIGSTOP)
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
        assert "a rollout actor did" in training.output()
        assert "it is replaced" in training.output()
    assert set(episodes_used(run).values()) == {1}
    assert sum(episodes_used(run).values()) == 4 * 14
    assert all(record["metrics"]["staleness_max"] <= 1 for record in audits(run).values())
    last = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics][-1]
    assert last["entente_worker_restarts_total"] == 1
