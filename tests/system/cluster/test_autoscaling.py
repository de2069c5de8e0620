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
from tests.paths import ROOT
from tests.system.support.fake_players import Block
from tests.system.support.fake_pool import Table, gone

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
CPUS = 4
NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net")


@pytest.fixture
def local_ray() -> Iterator[None]:
    ray.init(
        address="local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20
    )
    yield
    ray.shutdown()


def room(cpus: float = 1.0) -> FurtherPlace:
    return FurtherPlace(placement_group([{"CPU": cpus}]))


def free_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0.0))


@pytest.mark.usefixtures("local_ray")
def test_removed_actors_finish_their_games_and_free_their_resources(tmp_path: Path) -> None:
    with Table(tmp_path, actors=1, games_per_actor=2, further=room) as table:
        table.pool.resize(3)
        table.wait(lambda: table.pool.ready == 3 and table.swaps == 3, "two further actors with weights")
        assert free_cpus() < CPUS - 2
        blocks = [Block(f"b/{number}", seconds=2.0) for number in range(6)]
        table.start(*blocks)
        table.wait(lambda: table.log.read_text().count("plays") == 6, "six blocks at once on three actors")
        table.pool.resize(1)
        assert (table.pool.ready, table.pool.size) == (1, 3)
        assert not table.pool.has_room(1), "a leaving actor was offered a game"
        table.wait(lambda: table.pool.size == 1, "two actors to go")
        table.wait(lambda: len(table.blocks) == 6, "all blocks")
        assert table.played() == [f"b/{number}" for number in range(6)]
        assert len({player for _, player in table.blocks}) == 3, "another actor had to replay their blocks"
        assert table.pool.restarts == 0
        assert table.pool.stats()["decisions"] == 30.0, "the counters of actors that left are lost"
        table.wait(lambda: gone(table.pid(1)) and gone(table.pid(2)), "end of their processes")
        table.wait(lambda: free_cpus() > CPUS - 1, "their room")

        # A leaving actor that is wanted again stays, and a requested actor that is no longer wanted is cancelled.
        table.pool.resize(2)
        table.wait(lambda: table.pool.ready == 2, "a further actor")
        table.start(Block("c/0", seconds=1.0), Block("c/1", seconds=1.0))
        table.wait(lambda: table.log.read_text().count("plays c") == 2, "blocks on both")
        table.pool.resize(1)
        table.pool.resize(2)
        assert (table.pool.ready, table.pool.pending) == (2, 0)
        table.wait(lambda: len(table.blocks) == 8, "the last blocks")


@pytest.mark.usefixtures("local_ray")
def test_an_overdue_placement_is_cancelled_and_a_lost_actor_is_requested_again(tmp_path: Path) -> None:
    rooms = [100.0, 1.0, 1.0, 100.0]
    with Table(tmp_path, actors=1, further=lambda: room(rooms.pop(0)), node_timeout_s=15.0) as table:
        table.pool.resize(2)
        assert table.pool.pending == 1
        table.wait(lambda: table.pool.pending == 0, "end of the wait")
        assert "no room for 1 further rollout actors within 15 s (rollout.node_timeout_s)" in table.notices[0]
        table.pool.resize(2)
        table.wait(lambda: table.pool.ready == 2, "a further actor")
        os.kill(table.pid(1), 9)
        table.start(Block("b/0"), Block("b/1"))
        table.wait(lambda: table.pool.restarts == 1 and table.pool.ready == 2, "another in a room of its own")
        table.wait(lambda: len(table.blocks) == 2, "the blocks")
        assert len(rooms) == 1
        table.pool.resize(3)
        table.pool.resize(2)
        assert table.pool.pending == 0


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
    assert facts["replaced"] == 1
    assert facts["replacements_left"] == RolloutSettings().max_replacements, "a lost node was held against its actor"
