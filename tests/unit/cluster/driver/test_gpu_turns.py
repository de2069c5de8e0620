"""Learner and rollouts that take turns on one GPU: the order of turns, and the moves of tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cluster.actors.learner_device import LearnerDevice
from cluster.configs.loader import load_config
from cluster.driver.learner_update import UpdateCall
from cluster.errors import RunError
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn, tiny_model

SHARED = ("rollout.share_gpu_with_learner=true", "rollout.gpus_per_actor=1", "learner.gpus=1")


class Schedule:
    """Always has an update's blocks."""

    handed_over = 0
    topped_up: dict[str, int] = {}  # noqa: RUF012

    def ready(self) -> bool:
        return True

    def top_up(self, blocks: object) -> bool:
        return False

    def hand_over(self) -> dict[str, int]:
        self.handed_over += 1
        return {"FRANCE": 1}


def test_the_learner_waits_until_the_gpu_is_free() -> None:
    updates: list[Any] = []
    update = SimpleNamespace(remote=lambda *arguments: updates.append(arguments) or ["report", "weights"])
    learner = SimpleNamespace(update=SimpleNamespace(options=lambda **_: update))
    free = iter([False, False, True])
    schedule = Schedule()
    call = UpdateCall(load_config("smoke").learner, 1.0, learner, schedule, print, may_learn=lambda: next(free))  # type: ignore[arg-type]
    for _ in range(2):
        call.proceed(0)
        assert not updates
        assert not schedule.handed_over
        assert not call.waits_for
    call.proceed(0)
    assert len(updates) == 1
    assert call.waits_for == ["report"]
    call.proceed(0)  # and is not called again while the learner works


class Mover:
    """A learner that only records its moves."""

    def __init__(self) -> None:
        self.moves: list[str] = []

    def move_to(self, device: torch.device) -> None:
        self.moves.append(device.type)


def test_a_shared_gpu_holds_the_learner_only_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    emptied: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (3, 8))
    device, learner = LearnerDevice(1, shared=True), Mover()
    with device.working(learner):  # type: ignore[arg-type]
        assert learner.moves == ["cuda"]
    assert learner.moves == ["cuda", "cpu"]
    assert emptied == [1]
    assert device.free_bytes(1) == 8  # the whole device, because the engine is asleep
    with pytest.raises(ZeroDivisionError), device.working(learner):  # type: ignore[arg-type]
        raise ZeroDivisionError
    assert learner.moves == ["cuda", "cpu"] * 2
    own = LearnerDevice(1, shared=False)
    with own.working(learner):  # type: ignore[arg-type]
        pass
    assert learner.moves == ["cuda", "cpu"] * 2, "a GPU of its own is never left"
    assert own.free_bytes(1) == 3


def test_learner_without_its_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RunError, match=r"learner.gpus is 1 and PyTorch .* sees no GPU"):
        LearnerDevice(1, shared=False)
    device = LearnerDevice(0, shared=False)
    assert device.free_bytes(7) == 7


def test_moving_a_learner_moves_all_its_tensors() -> None:
    model = tiny_model("qwen3")
    settings = LearnerSettings(beta=0.1, returns="episode", minibatches=1)
    learner = Learner(model, settings, GroupingSettings(keys=("country",)), 0, reference=tiny_model("qwen3"))
    rng = np.random.default_rng(0)
    episodes = [
        episode_of((ragged_turn(rng, policy_version=0),), role="FRANCE", name=f"b/{number}", reward=float(number))
        for number in range(4)
    ]
    learner.step(Batch(tuple(episodes), 0))
    learner.move_to(torch.device("meta"))
    reference = learner._passes.reference
    assert reference is not None
    tensors = [*model.parameters(), *model.buffers(), *reference.parameters(), *reference.buffers()]
    tensors += [value for state in learner._optimizer.state.values() for value in state.values()]
    assert len(learner._optimizer.state) == len(list(model.parameters()))
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert all(parameter.grad is None for parameter in model.parameters())
