"""A run whose external replay server stays away, or that is stopped meanwhile: it has saved, and goes on later."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cluster.drill.external_server import ExternalServer
from cluster.runs.folder import last_update
from cluster.runs.restarts import restarts
from grpo_core.checkpoints.folders import checkpoint_versions
from tests.system.support.training_process import TrainingProcess
from tests.system.training.test_server_away import arguments, check_every_episode_is_used_once, outage
from tests.system.training.test_server_away import external as external

pytestmark = pytest.mark.timeout(1800)


def test_a_run_that_is_stopped_while_its_server_is_away_has_saved_and_waits_when_it_is_resumed(
    external: ExternalServer, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with TrainingProcess(run, *arguments(external.url)) as training:
        training.wait_until(lambda: last_update(run) >= 7, "seven updates")
        external.kill()
        outage(training)
        seen = last_update(run)
        training.process.send_signal(signal.SIGTERM)
        assert training.finish() == 130, training.output()
        assert training.survivors() == []
    assert checkpoint_versions(run)[-1] >= seen
    with TrainingProcess(run, "--resume", config=None) as training:
        outage(training)
        assert training.process.poll() is None
        external.start_again()
        assert training.finish() == 0, training.output()
        assert "the replay server is back after" in training.output()
    assert restarts(run) == []
    check_every_episode_is_used_once(run, external.url)


@pytest.mark.parametrize("snapshot_every", [1, 1000], ids=["the_driver_waits_too", "actors_wait"])
def test_a_run_whose_server_stays_away_saves_and_says_how_to_go_on(
    external: ExternalServer, tmp_path: Path, snapshot_every: int
) -> None:
    run = tmp_path / "run"
    settings = ("redis.away_timeout_s=15", "learner.checkpoint_every=50", f"opponents.snapshot_every={snapshot_every}")
    changes = [word for setting in settings for word in ("--set", setting)]
    with TrainingProcess(run, *arguments(external.url), *changes) as training:
        training.wait_until(lambda: last_update(run) >= 3, "three updates")
        external.kill()
        assert training.finish() == 2, training.output()
        line = training.output().splitlines()[-1]
        assert "nothing durable is lost: go on with --resume when the server is back" in line
        assert training.survivors() == []
    assert checkpoint_versions(run)[-1] == last_update(run)
    with TrainingProcess(run, "--resume", config=None) as training:
        assert training.finish() == 2, training.output()
        assert "go on with --resume when the server is back" in training.output().splitlines()[-1]
    external.start_again()
    updates = last_update(run) + 3
    with TrainingProcess(run, "--resume", "--set", f"learner.updates={updates}", config=None) as training:
        assert training.finish() == 0, training.output()
    assert restarts(run) == []
    check_every_episode_is_used_once(run, external.url, updates)
