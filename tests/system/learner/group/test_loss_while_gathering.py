"""A process of the learner dies while weights are gathered; ``tests/soak`` has more of the moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import LostError, RunError
from services.replay.memory_buffer import MemoryBuffer
from tests.system.support.learner_group import BLOCKS, episodes, learner_of
from tests.system.support.mortal_peer import MortalPeer, check_death_within_a_checkpoint

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

A_MOMENT_OF_THE_OPTIMIZER = 40


@pytest.mark.usefixtures("own_ray")
def test_a_death_within_a_checkpoint_loses_and_doubles_no_episode(tmp_path: Path) -> None:
    check_death_within_a_checkpoint(tmp_path, (), A_MOMENT_OF_THE_OPTIMIZER)


@pytest.mark.usefixtures("own_ray")
def test_after_a_death_while_publishing_the_update_is_not_saved(tmp_path: Path) -> None:
    import ray

    run, buffer = tmp_path / "run", MemoryBuffer(group_timeout_s=60)
    with learner_of(2, run, buffer=buffer, peer=MortalPeer) as (worker, (peer,)):
        buffer.append(episodes(0))
        ray.get(peer.die_at.remote(5), timeout=60)
        with pytest.raises(LostError, match="process 1 of the learner"):
            worker.update(BLOCKS, 1.0)
        with pytest.raises(RunError, match="the update under way failed"):
            worker.checkpoint()
        assert buffer.stats()["acknowledged"] == 0
    assert [folder.name for folder in (run / "checkpoints").iterdir()] == ["0"]
