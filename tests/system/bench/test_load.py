"""The control plane under load: a real server, real actors and learner, without games and gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.bench.system import load
from services.environments.diplomacy.position import POWERS

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("servers", [1, 2])
def test_every_stored_episode_is_used_once_and_then_deleted(
    servers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "SECONDS", 3.0)  # CPU time is counted in ticks of 10 ms
    recorded = load.record(tmp_path)
    assert sorted(recorded) == sorted(POWERS)
    carried = load.carry(tmp_path, recorded, 10, servers)
    update = load.load_config_of(10).learner.episodes_per_update
    assert carried.episodes >= update
    assert carried.episodes % update == 0, "an update went without some of its episodes"
    assert all(seconds > 0 for seconds in carried.cpu_s.values()), carried.cpu_s
    assert set(carried.cpu_s) == {"actors", "server", "learner", "driver"}
    # Admission bounds the episodes in flight, however fast the actors are.
    assert carried.most_stored_bytes < 64e6
    assert f"{carried.most_stored_bytes / 1e6:.0f} MB of episodes stored" in carried.summary()
