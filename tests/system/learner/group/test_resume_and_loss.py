"""A learner of several processes: its checkpoints fit any number of processes, and a lost process ends it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from cluster.errors import LostError
from grpo_core.models.pretrained import load_model
from services.replay.memory_buffer import MemoryBuffer
from tests.system.support.learner_group import BLOCKS, episodes, largest_difference, learner_of, saved, train

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

LORA = ("policy.use_peft=true", "policy.lora_r=2")
SPECIALISTS = (*LORA, "policy.specialists=true")


@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize("settings", [(), LORA, SPECIALISTS], ids=["full weights", "adapter", "adapters of roles"])
def test_a_checkpoint_of_several_processes_is_resumed_by_another_number(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    run, buffer = tmp_path / "run", MemoryBuffer(group_timeout_s=60)
    for number, processes in enumerate((3, 2, 1)):
        with learner_of(processes, run, *settings, resume=number > 0, buffer=buffer) as (worker, _):
            assert worker.version() == 2 * number
            train(worker, 2)
            folder = worker.checkpoint()
    with learner_of(1, tmp_path / "straight", *settings) as (worker, _):
        train(worker, 6)
        assert largest_difference(saved(worker.checkpoint()), saved(folder)) < 1e-6
    load_model(Path(folder), shared_base=settings == SPECIALISTS)  # as engines do


@pytest.mark.usefixtures("own_ray")
def test_a_killed_process_ends_the_learner_and_no_episode_is_acknowledged(tmp_path: Path) -> None:
    import ray

    buffer = MemoryBuffer(group_timeout_s=60)
    with learner_of(2, tmp_path / "run", buffer=buffer) as (worker, (peer,)):
        train(worker, 1)
        pid = next(
            process.pid
            for process in psutil.Process().children(recursive=True)
            if "LearnerPeerActor" in " ".join(process.cmdline())
        )
        psutil.Process(pid).kill()
        buffer.append(episodes(1))
        with pytest.raises(LostError, match="process 1 of the learner"):
            worker.update(BLOCKS, 1.0)
        assert buffer.stats()["acknowledged"] == 0
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(peer.ready.remote(), timeout=60)
