"""The batches that the learner takes from the buffer: order of arrival, unreadable blocks, lost blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cluster.actors.batch_collector import BatchCollector, set_aside
from cluster.actors.learner import LearnerWorker
from cluster.configs.loader import load_config
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS
from services.replay.buffer import BlocksMissingError, UnreadableError
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

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


def test_an_update_does_not_depend_on_the_order_in_which_blocks_end(tmp_path: Path, in_order: bytes) -> None:
    assert weights_after(tmp_path / "run", episodes()[::-1], POWERS) == in_order


def test_an_update_does_not_depend_on_the_order_of_deliveries(tmp_path: Path, in_order: bytes) -> None:
    assert weights_after(tmp_path / "run", episodes(), POWERS[4:], POWERS[:4]) == in_order


def test_other_episodes_change_the_update(tmp_path: Path, in_order: bytes) -> None:
    others = [dataclasses.replace(episode, reward=-episode.reward) for episode in episodes()]
    assert weights_after(tmp_path / "run", others, POWERS) != in_order


class PoisonedBuffer(MemoryBuffer):
    """The episodes with these ids could not be decoded and were set aside."""

    def __init__(self, unreadable: Sequence[str]) -> None:
        super().__init__(group_timeout_s=60)
        self.unreadable = list(unreadable)

    def unreadable_ids(self, role: str) -> frozenset[str]:
        index = POWERS.index(role)
        return frozenset(name for name in self.unreadable if int(name[1:].partition("/")[0]) % len(POWERS) == index)


def readable(*lost: int) -> list[Episode]:
    """All episodes but those of the blocks with these numbers."""
    names = tuple(f"b{index:06d}" for index in lost)
    return [episode for episode in episodes() if not episode.episode_id.startswith(names)]


def collector_of(buffer: MemoryBuffer) -> BatchCollector:
    return BatchCollector(buffer, num_generations=2, max_staleness=1, top_up_episodes=0)


def test_an_update_continues_without_an_unreadable_block(tmp_path: Path) -> None:
    # Its games count as stored and are not played again, so the update must not wait for them.
    buffer = PoisonedBuffer(["b000000/0", "b000000/1"])
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=False)
    buffer.append(readable(0))
    report, _ = worker.update(dict.fromkeys(POWERS, 2), 0.01)
    assert report.episodes == len(readable(0))
    assert buffer.stats()["delivered"] == len(readable(0))
    with pytest.raises(BlocksMissingError):  # an update needs some episodes
        worker.update({POWERS[0]: 1}, 0.01)


@pytest.mark.parametrize(
    "unreadable",
    [
        ("b000000/0",),  # the block's other game is lost
        ("b000000/0", "b000007/1"),  # one game each of two blocks
        ("b000001/0", "b000001/1"),  # another country's block
    ],
)
def test_a_lost_block_is_not_excused_by_other_unreadable_games(unreadable: tuple[str, ...]) -> None:
    buffer = PoisonedBuffer(unreadable)
    buffer.append(readable(0))
    with pytest.raises(BlocksMissingError, match=f"{POWERS[0]} lacks 1 block"):
        collector_of(buffer).take(dict.fromkeys(POWERS, 2), 0.01)


def test_an_unreadable_block_excuses_one_missing_block_once() -> None:
    buffer = PoisonedBuffer(["b000000/0", "b000000/1"])
    buffer.append(readable(0, 7))
    collector = collector_of(buffer)
    with pytest.raises(BlocksMissingError, match=f"{POWERS[0]} lacks 2 block"):
        collector.take(dict.fromkeys(POWERS, 2), 0.01)
    collector.take(dict.fromkeys(POWERS, 1), 0.01)
    collector.clear()
    assert collector.excused_blocks == ["b000000"]
    with pytest.raises(BlocksMissingError, match=f"{POWERS[0]} lacks 1 block"):
        collector.take(dict.fromkeys(POWERS, 1), 0.01)
    buffer.unreadable += ["b000007/0", "b000007/1"]
    collector.take(dict.fromkeys(POWERS, 1), 0.01)


def test_excused_blocks_are_kept_with_the_checkpoint_of_their_update(tmp_path: Path) -> None:
    buffer = PoisonedBuffer(["b000000/0", "b000000/1"])
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=False)
    buffer.append(readable(0, 7))
    worker.collect(dict.fromkeys(POWERS, 1), 0.01)
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=True)  # died before it learned
    worker.update(dict.fromkeys(POWERS, 1), 0.01)
    worker.checkpoint()
    resumed = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=True)
    with pytest.raises(BlocksMissingError, match=f"{POWERS[0]} lacks 1 block"):
        resumed.update(dict.fromkeys(POWERS, 1), 0.01)


class _CountedId(str):
    """An id that counts how often it is hashed."""

    hashes = 0

    def __hash__(self) -> int:
        _CountedId.hashes += 1
        return super().__hash__()


def test_episodes_set_aside_are_found_with_work_linear_in_the_episodes() -> None:
    empty = episode_of((), role="FRANCE", name="e")
    delivered = [dataclasses.replace(empty, episode_id=_CountedId(f"e{number}")) for number in range(50)]
    _CountedId.hashes = 0
    assert set_aside(delivered, delivered[10:]) == delivered[:10]
    assert _CountedId.hashes <= 2 * len(delivered)  # once as used and once as delivered


def test_an_update_that_loses_each_block_for_another_reason_replaces_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.actors.batch_collector.FIRST_LOOK_S", 0.01)
    france, germany = "FRANCE", "GERMANY"
    buffer = MemoryBuffer(group_timeout_s=60)
    monkeypatch.setattr(buffer, "unreadable_ids", lambda role: {"b0/0", "b0/1"} if role == france else set())
    arriving = [episode for episode in episodes() if episode.role == germany][:2]
    buffer.append(arriving)
    collector = BatchCollector(buffer, 2, 1, 0, lambda _: "it cannot be used")
    with pytest.raises(UnreadableError) as raised:
        collector.take({france: 1, germany: 1}, 0.1)
    assert raised.value.missing == {france: 1, germany: 1}
    # The blocks in their place are used, and neither excuses a block that is really lost.
    for role in (france, germany):
        of_role = [episode for episode in episodes() if episode.role == role][2:]
        buffer.append(of_role)
    collector._fault = None
    collector.take({france: 1, germany: 1}, 0.1)
    collector.clear()
    with pytest.raises(BlocksMissingError) as lost:
        collector.take({france: 1}, 0.1)
    assert not isinstance(lost.value, UnreadableError)
