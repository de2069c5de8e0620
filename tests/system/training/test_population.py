"""A population that other processes change during training; snapshots are read from Redis when files are missing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from services.replay.server.embedded import running_url
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SETTINGS = (
    "rollout.max_staleness=0", "opponents.snapshot_every=1", "learner.checkpoint_every=1",
    "opponents.members={random=1e-9, greedy=1e-9}",  # almost never drawn once there is a snapshot
    "evaluation.against=[]", "evaluation.final_against=[]",
    "rollout.start_timeout_s=900", "rollout.swap_timeout_s=900",
)  # fmt: skip


def population(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ENTENTE, "population", *arguments], capture_output=True, text=True, timeout=600)


@contextmanager
def mirror_of(run: Path) -> Iterator[PopulationMirror]:
    url = running_url(run / "redis")
    assert url is not None
    mirror = PopulationMirror(url, (run / "run_id").read_text().strip(), connect_timeout_s=20, limit_mib=0)
    yield mirror
    mirror.close()


def in_redis(run: Path, member_id: str) -> bool:
    """Whether the training process has published a member to the run's server."""
    if running_url(run / "redis") is None:
        return False
    with mirror_of(run) as mirror:
        document = mirror.read()
        found = {} if document is None else {member.id: member for member in document.members}
        return member_id in found and (found[member_id].kind == "bot" or mirror.weights(found[member_id]) is not None)


@contextmanager
def paused(training: TrainingProcess) -> Iterator[None]:
    """No game is played inside the block, so that no update is made."""
    training.wait_until(lambda: bool(training.members("RolloutActor")), "rollout actors")
    actors = training.members("RolloutActor")
    for actor in actors:
        actor.suspend()
    yield
    for actor in actors:
        actor.resume()


def test_other_processes_change_a_population_in_training_and_missing_files_come_from_redis(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with TrainingProcess(run, *QUICK, *arguments, "--set", "learner.updates=4") as training:
        training.wait_until(lambda: in_redis(run, "bot/greedy"), "the population in Redis")
        with paused(training):  # else all updates may be over before the commands have begun
            added = population("add", "dumbbot", "--to", str(run), "--weight", "0.000000001", "--country", "ITALY")
            assert added.returncode == 0, added.stderr
            assert population("retire", str(run), "bot/greedy").returncode == 0
        training.wait_until(lambda: in_redis(run, "bot/dumbbot"), "what another process added")
        assert training.finish() == 0, training.output()
    after = Population.load(run / "population.json")
    assert {member.id for member in after.members} == {
        "bot/random", "bot/greedy", "bot/dumbbot", "policy/v1", "policy/v2", "policy/v3", "policy/v4",
    }  # fmt: skip
    assert after.update == 4
    assert after["bot/greedy"].retired
    assert after["bot/dumbbot"].created_at_update in (1, 2, 3, 4)
    assert after["policy/v4"].parent == "policy/v3"
    # The newest checkpoint is what was frozen at the same update, byte for byte.
    twice = population("promote", str(run))
    assert twice.returncode == 2
    assert "policy/v4 of" in twice.stderr
    assert "plays these very weights already" in twice.stderr
    for version in (1, 2, 3, 4):
        (run / "population" / f"v{version}.safetensors").unlink()
    with TrainingProcess(run, "--resume", "--set", "learner.updates=5", config=None) as training:
        assert training.finish() == 0, training.output()
    assert Population.load(run / "population.json").members[:-1] == after.members
    assert Population.load(run / "population.json").members[-1].id == "policy/v5"
