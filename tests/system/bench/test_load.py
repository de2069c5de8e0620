"""The control plane under load: a real server, real actors' and learner's sides, games and gradients left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.bench.system import load

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def test_what_simulated_actors_store_is_learned_from_whole_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "SECONDS", 0.5)
    recorded = load.record(tmp_path)
    assert sorted(recorded) == sorted(load.POWERS)
    carried = load.carry(tmp_path, recorded, 10)
    update = load.load_config_of(10).learner.episodes_per_update
    assert carried.episodes >= update
    assert carried.episodes % update == 0, "an update went without some of its episodes"
    assert all(seconds > 0 for seconds in carried.cpu_s.values())
    assert set(carried.cpu_s) == {"actors", "server", "learner", "driver"}
    # Never more than admission lets run ahead, whatever the actors could play.
    assert carried.most_stored_bytes < 64e6
    assert f"{carried.most_stored_bytes / 1e6:.0f} MB of episodes stored" in carried.says()
