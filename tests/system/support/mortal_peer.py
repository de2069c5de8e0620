"""A peer of the learner that dies between two tensors which all its processes gather."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.actors.learner_group.peer_actor import LearnerPeerActor
from cluster.errors import LostError
from services.replay.memory_buffer import MemoryBuffer
from tests.system.support.learner_group import BLOCKS, episodes, largest_difference, learner_of, saved, train


class MortalPeer(LearnerPeerActor):
    """A peer that can be told to die while it gathers."""

    def die_at(self, tensor: int) -> None:
        """End this process, as kill -9 does, at the so many-th tensor from now on that it is to gather."""
        from torch.distributed.tensor import DTensor

        gather, left = DTensor.full_tensor, iter(range(tensor - 1, -1, -1))

        def counted(*arguments: object, **options: object) -> object:
            if not next(left):
                os._exit(9)
            return gather(*arguments, **options)

        DTensor.full_tensor = counted


def check_death_within_a_checkpoint(folder: Path, settings: tuple[str, ...], tensor: int) -> None:
    """Two updates, a death while the second one is saved, and a new learner that makes it from the same episodes."""
    import ray

    run, buffer = folder / "run", MemoryBuffer(group_timeout_s=60)
    with learner_of(2, run, *settings, buffer=buffer, peer=MortalPeer) as (worker, (peer,)):
        train(worker, 1)
        worker.checkpoint()
        used = buffer.stats()["acknowledged"]
        assert used == len(episodes(0))
        train(worker, 1)
        ray.get(peer.die_at.remote(tensor), timeout=60)
        with pytest.raises(LostError, match="process 1 of the learner"):
            worker.checkpoint()
        assert buffer.stats()["acknowledged"] == used
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["0", "1"]
    with learner_of(2, run, *settings, resume=True, buffer=buffer) as (worker, _):
        assert worker.version() == 1
        worker.update(BLOCKS, 1.0)  # from the same episodes, which are delivered again
        resumed = saved(worker.checkpoint())
        assert buffer.stats()["acknowledged"] == 2 * used
    with learner_of(1, folder / "alone", *settings) as (worker, _):
        train(worker, 2)
        assert largest_difference(saved(worker.checkpoint()), resumed) < 1e-6
