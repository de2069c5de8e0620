"""Scaling of rollout actors: in one Ray, and on a head whose autoscaler starts and ends real nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray
from ray.util.placement_group import placement_group

from cluster.configs.sections import RolloutSettings
from cluster.runtime.placement import FurtherPlace
from cluster.runtime.ray_calls import shut_down_ray
from tests.paths import ROOT
from tests.system.support.fake_players import Block
from tests.system.support.fake_pool import PoolHarness, gone

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
CPUS = 4
NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net")


@pytest.fixture
def local_ray() -> Iterator[None]:
    ray.init(
        address="local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20
    )
    yield
    shut_down_ray()


def room(cpus: float = 1.0) -> FurtherPlace:
    return FurtherPlace(placement_group([{"CPU": cpus}]))


def free_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0.0))


@pytest.mark.usefixtures("local_ray")
def test_removed_actors_finish_their_games_and_free_their_resources(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, actors=1, games_per_actor=2, further=room) as harness:
        harness.pool.resize(3)
        harness.wait(lambda: harness.pool.ready == 3 and harness.swaps == 3, "two further actors with weights")
        assert free_cpus() < CPUS - 2
        blocks = [Block(f"b/{number}", seconds=2.0) for number in range(6)]
        harness.start(*blocks)
        harness.wait(lambda: harness.log.read_text().count("plays") == 6, "six blocks at once on three actors")
        harness.pool.resize(1)
        assert (harness.pool.ready, harness.pool.size) == (1, 3)
        assert not harness.pool.has_room(1), "a leaving actor was offered a game"
        harness.wait(lambda: harness.pool.size == 1, "two actors to go")
        harness.wait(lambda: len(harness.blocks) == 6, "all blocks")
        assert harness.played() == [f"b/{number}" for number in range(6)]
        assert len({player for _, player in harness.blocks}) == 3, "another actor had to replay their blocks"
        assert harness.pool.restarts == 0
        assert harness.pool.stats()["decisions"] == 30.0, "the counters of actors that left are lost"
        harness.wait(lambda: gone(harness.pid(1)) and gone(harness.pid(2)), "end of their processes")
        harness.wait(lambda: free_cpus() > CPUS - 1, "their room")

        # A leaving actor that is wanted again stays, and a requested actor that is no longer wanted is cancelled.
        harness.pool.resize(2)
        harness.wait(lambda: harness.pool.ready == 2, "a further actor")
        harness.start(Block("c/0", seconds=1.0), Block("c/1", seconds=1.0))
        harness.wait(lambda: harness.log.read_text().count("plays c") == 2, "blocks on both")
        harness.pool.resize(1)
        harness.pool.resize(2)
        assert (harness.pool.ready, harness.pool.pending) == (2, 0)
        harness.wait(lambda: len(harness.blocks) == 8, "the last blocks")


@pytest.mark.usefixtures("local_ray")
def test_an_overdue_placement_is_cancelled_and_a_lost_actor_is_requested_again(tmp_path: Path) -> None:
    rooms = [100.0, 1.0, 1.0, 100.0]
    with PoolHarness(tmp_path, actors=1, further=lambda: room(rooms.pop(0)), node_timeout_s=10.0) as harness:
        harness.pool.resize(2)
        assert harness.pool.pending == 1
        harness.wait(lambda: harness.pool.pending == 0, "end of the wait")
        assert "no room for 1 further rollout actors within 10 s (rollout.node_timeout_s)" in harness.notices[0]
        harness.pool.resize(2)
        harness.wait(lambda: harness.pool.ready == 2, "a further actor")
        os.kill(harness.pid(1), 9)
        harness.start(Block("b/0"), Block("b/1"))
        harness.wait(lambda: harness.pool.restarts == 1 and harness.pool.ready == 2, "another in a room of its own")
        harness.wait(lambda: len(harness.blocks) == 2, "the blocks")
        assert len(rooms) == 1
        harness.pool.resize(3)
        harness.pool.resize(2)
        assert harness.pool.pending == 0


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("unshare") is None, reason="needs Linux's unshare")
def test_a_real_autoscaler_adds_nodes_under_load_and_removes_idle_ones(tmp_path: Path) -> None:
    probe = subprocess.run([*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, timeout=20)
    if probe.returncode:
        pytest.skip(f"network and process namespaces may not be made here: {probe.stderr.strip()}")
    script = ROOT / "tests/system/support/autoscaling_head.py"
    done = subprocess.run(
        [*NAMESPACES, sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["nodes"][0] == 1, "there were nodes before any was requested"
    assert max(facts["nodes"]) == 3
    assert facts["nodes"][-1] == 1, "idle nodes were kept"
    assert facts["most_ready"] == 3
    assert facts["played"] == sorted(facts["started"]), "blocks were lost or played twice"
    assert facts["by_further_actors"] > 0
    assert facts["replaced"] == 1, facts["notices"]
    assert facts["replacements_left"] == RolloutSettings().max_replacements, facts["notices"]  # no actor is to blame
