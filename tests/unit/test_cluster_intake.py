"""What the learner takes from the buffer, whatever the order it came in."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from cluster.actors.learner import LearnerWorker
from cluster.config import load_config
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.grpo_cases import episode_of, ragged_turn

CONFIG = load_config(
    "smoke",
    [
        *("policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32", "learner.minibatches=1"),
        *("rollout.num_generations=2", "learner.returns=episode", "learner.lr_warmup_updates=0"),
        *("grouping.keys=['country']", "learner.tokens_per_microbatch=256"),
    ],
)


def episodes() -> list[Episode]:
    """Two games of each of two blocks of each country."""
    rng = np.random.default_rng(0)
    outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
    return [
        dataclasses.replace(
            episode_of((ragged_turn(rng),), role=power, name=f"b{index:06d}/{member}", reward=float(rng.normal())),
            block_size=2,
            outcome=outcome,
        )
        for index, power in enumerate(POWERS * 2)
        for member in range(2)
    ]


def weights_after(path: Path, arriving: list[Episode], *deliveries: tuple[str, ...]) -> bytes:
    path.mkdir()
    buffer = MemoryBuffer(group_timeout_s=60)
    worker = LearnerWorker(CONFIG, str(path), buffer, resume=False)
    buffer.append(arriving)
    for powers in deliveries[:-1]:
        worker.collect(dict.fromkeys(powers, 2), 1.0)
    _, payload = worker.update(dict.fromkeys(deliveries[-1], 2), 1.0)
    return payload.data


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return weights_after(tmp_path_factory.mktemp("runs") / "in_order", episodes(), POWERS)


def test_the_order_in_which_blocks_end_does_not_change_an_update(tmp_path: Path, in_order: bytes) -> None:
    assert weights_after(tmp_path / "run", episodes()[::-1], POWERS) == in_order


def test_the_order_of_deliveries_does_not_change_an_update(tmp_path: Path, in_order: bytes) -> None:
    assert weights_after(tmp_path / "run", episodes(), POWERS[4:], POWERS[:4]) == in_order


def test_other_episodes_change_it(tmp_path: Path, in_order: bytes) -> None:
    others = [dataclasses.replace(episode, reward=-episode.reward) for episode in episodes()]
    assert weights_after(tmp_path / "run", others, POWERS) != in_order
