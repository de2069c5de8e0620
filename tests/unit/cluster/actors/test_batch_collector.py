"""What the learner takes from the buffer, whatever the order it came in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cluster.actors.batch_collector import ids_set_aside
from cluster.actors.learner import LearnerWorker
from cluster.configs.loader import load_config
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS
from services.replay.buffer import BlocksMissingError
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.grpo_core.cases import episode_of, ragged_turn

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


class PoisonedBuffer(MemoryBuffer):
    """So many entries could not be read and were set aside."""

    def __init__(self, poison: int) -> None:
        super().__init__(group_timeout_s=60)
        self._poison = poison

    def stats(self) -> Mapping[str, float]:
        return {**super().stats(), "poison": self._poison}


def test_an_update_goes_on_without_a_block_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    # Its games are stored, so that nobody plays them again: to wait for them would end the run, and every resumption.
    wanted = dict.fromkeys(POWERS, 2)
    readable = [episode for episode in episodes() if not episode.episode_id.startswith("b000000")]
    for name, poison in (("run", 2), ("lost", 1)):
        (tmp_path / name).mkdir()
        buffer = PoisonedBuffer(poison)
        worker = LearnerWorker(CONFIG, str(tmp_path / name), buffer, resume=False)
        buffer.append(readable)
        if poison < 2:  # a damaged game is no excuse for another one that is lost
            with pytest.raises(BlocksMissingError, match=f"{POWERS[0]} lacks 1 block"):
                worker.update(wanted, 0.01)
            continue
        report, _ = worker.update(wanted, 0.01)
        assert report.episodes == len(readable)
        assert buffer.stats()["delivered"] == len(readable)
        with pytest.raises(BlocksMissingError):  # nothing at all is no update
            worker.update({POWERS[0]: 1}, 0.01)


class _CountedId(str):
    """An id that counts how often it is hashed."""

    hashes = 0

    def __hash__(self) -> int:
        _CountedId.hashes += 1
        return super().__hash__()


def test_ids_set_aside_are_found_with_work_linear_in_the_episodes() -> None:
    empty = episode_of((), role="FRANCE", name="e")
    delivered = [dataclasses.replace(empty, episode_id=_CountedId(f"e{number}")) for number in range(50)]
    _CountedId.hashes = 0
    assert ids_set_aside(delivered, delivered[10:]) == [f"e{number}" for number in range(10)]
    assert _CountedId.hashes <= 2 * len(delivered)  # once as used and once as delivered
