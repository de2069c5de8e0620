"""A run whose external replay server goes away: it waits and goes on, and where it is stopped it has saved."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.drill.external_server import ExternalServer
from cluster.drill.replay_client import ReplayClient
from cluster.runs.folder import RunFolder, episodes_used, last_update
from cluster.runs.restarts import restarts
from grpo_core.checkpoints.folders import checkpoint_versions
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

UPDATES = 60
OUTAGE_S = 12.0  # longer than a server that is there may take to answer
EPISODES = 14  # of one update of smoke.toml


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalServer]:
    with ExternalServer(tmp_path / "server") as server:
        yield server


def arguments(url: str) -> tuple[str, ...]:
    changes = (
        f"redis.url={url}", "redis.connect_timeout_s=2", "redis.answer_timeout_s=4", "redis.away_timeout_s=600",
        f"learner.updates={UPDATES}", "learner.checkpoint_every=5", "evaluation.against=[]",
    )  # fmt: skip
    return (*QUICK, *(word for change in changes for word in ("--set", change)))


def told(training: TrainingProcess, words: str, times: int = 1) -> None:
    """Wait until the run has said these words so often."""
    training.wait_until(lambda: training.output().count(words) >= times, f"line {words!r}")


def outage(training: TrainingProcess, times: int = 1) -> None:
    """Wait until nothing can go on without the server, and for a while longer."""
    told(training, "does not answer: waiting for it", times)
    time.sleep(OUTAGE_S)


def check_every_episode_is_used_once(run: Path, url: str, updates: int = UPDATES) -> None:
    used = episodes_used(run)
    assert len(used) == updates * EPISODES
    assert set(used.values()) == {1}
    with ReplayClient(url, RunFolder(run).run_id) as store:
        assert store.stored() >= used.keys()
        assert store.counters()["acknowledged"] == len(used)
    lines = [line.update for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics]
    assert lines == list(range(1, updates + 1))


def test_a_run_waits_for_its_server_and_goes_on_without_a_restart(external: ExternalServer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with TrainingProcess(run, *arguments(external.url)) as training:
        training.wait_until(lambda: last_update(run) >= 2, "two updates")
        external.stop()
        outage(training)
        external.go_on()
        told(training, "the replay server is back after")
        seen = last_update(run)
        training.wait_until(lambda: last_update(run) >= seen + 3, "updates after the server was stopped")
        external.kill()
        told(training, "does not answer: waiting for it", 2)
        training.members("RolloutActor")[0].kill()  # its replacement waits, too
        time.sleep(OUTAGE_S)
        external.start_again()
        told(training, "the replay server is back after", 2)
        seen = last_update(run)
        training.wait_until(lambda: last_update(run) >= seen + 3, "updates after the server was killed")
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
        assert restarts(run) == []
        lines = training.output().splitlines()
        # On a busy machine a short absence more may be seen.
        assert (
            sum("does not answer: waiting for it, at most 600 s (redis.away_timeout_s)" in text for text in lines) >= 2
        )
        assert sum("the replay server is back after" in line for line in lines) >= 2
        assert "Traceback" not in training.output()
    check_every_episode_is_used_once(run, external.url)


def test_a_run_that_is_stopped_together_with_its_server_saves_without_waiting_for_it(
    external: ExternalServer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with TrainingProcess(run, *arguments(external.url), "--set", "run.silence_timeout_s=300") as training:
        training.wait_until(lambda: last_update(run) >= 3, "three updates")
        external.kill()
        training.process.send_signal(signal.SIGTERM)
        assert training.finish() == 130, training.output()
        assert "stopped; continue with: entente train --resume" in training.output().splitlines()[-1]
        assert training.survivors() == []
    assert checkpoint_versions(run)[-1] == last_update(run)
