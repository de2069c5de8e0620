from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt
from services.replay.codec import CodecError
from services.replay.memory_buffer import MemoryBuffer
from services.replay.pending_blocks import PendingBlocks
from services.replay.synthetic_episodes import synthetic_episode


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def episode(block: str, member: int, role: str = "FRANCE", size: int = 2) -> Episode:
    return synthetic_episode(block, member, role=role, block_size=size, turns=1, prompt_tokens=3, completion_tokens=3)


def ids(delivery: Delivery) -> list[str]:
    return [episode.episode_id for episode in delivery.episodes]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def buffer(clock: Clock) -> MemoryBuffer:
    return MemoryBuffer(group_timeout_s=10, clock=clock)


def test_take_returns_whole_blocks_oldest_first(buffer: MemoryBuffer) -> None:
    buffer.append(
        [episode("a", 0), episode("b", 0), episode("b", 1), episode("c", 0), episode("a", 1), episode("c", 1)]
    )
    assert ids(buffer.take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]
    assert ids(buffer.take({"FRANCE": 1}, 0)) == ["c/0", "c/1"]


def test_take_returns_the_requested_number_of_blocks_per_role(buffer: MemoryBuffer) -> None:
    for role in ("FRANCE", "ITALY"):
        buffer.append([episode(f"{role}{block}", member, role) for block in range(3) for member in range(2)])
    delivery = buffer.take({"ITALY": 2, "FRANCE": 1}, 0)
    assert [receipt.role for receipt in delivery.receipts] == ["ITALY"] * 4 + ["FRANCE"] * 2
    assert [e.role for e in delivery.episodes] == [receipt.role for receipt in delivery.receipts]
    assert buffer.stats()["waiting/FRANCE"] == 4
    assert buffer.stats()["waiting/ITALY"] == 2


def test_take_with_missing_blocks_raises_and_takes_nothing(buffer: MemoryBuffer) -> None:
    buffer.append([episode("a", 0), episode("a", 1), episode("i", 0, "ITALY")])
    with pytest.raises(BlocksMissingError, match=r"ITALY lacks 1 block\(s\) \(1 episode") as raised:
        buffer.take({"FRANCE": 1, "ITALY": 1, "TURKEY": 2}, 0)
    assert "TURKEY lacks 2 block(s) (nothing waits)" in str(raised.value)
    assert "FRANCE" not in str(raised.value)
    assert buffer.stats()["waiting"] == 3


def test_incomplete_block_is_delivered_at_the_group_timeout_and_its_late_episode_later(
    buffer: MemoryBuffer, clock: Clock
) -> None:
    buffer.append([episode("a", 0)])
    clock.now_s = 9.9
    with pytest.raises(BlocksMissingError):
        buffer.take({"FRANCE": 1}, 0)
    clock.now_s = 10
    assert ids(buffer.take({"FRANCE": 1}, 0)) == ["a/0"]
    buffer.append([episode("a", 1)])
    with pytest.raises(BlocksMissingError):
        buffer.take({"FRANCE": 1}, 0)
    clock.now_s = 20
    assert ids(buffer.take({"FRANCE": 1}, 0)) == ["a/1"]


def test_whole_block_is_delivered_before_an_older_incomplete_one(buffer: MemoryBuffer, clock: Clock) -> None:
    buffer.append([episode("slow", 0)])
    buffer.append([episode("whole", 0), episode("whole", 1)])
    clock.now_s = 11  # the fragment may go too, but its rest would come late as one block too many
    assert ids(buffer.take({"FRANCE": 1}, timeout_s=0)) == ["whole/0", "whole/1"]
    buffer.append([episode("slow", 1)])
    assert ids(buffer.take({"FRANCE": 1}, timeout_s=0)) == ["slow/0", "slow/1"]


def test_duplicate_episode_is_dropped(buffer: MemoryBuffer) -> None:
    assert buffer.append([episode("a", 0), episode("a", 0)]) == 1
    assert buffer.append([episode("a", 0), episode("a", 1)]) == 1
    delivery = buffer.take({"FRANCE": 1}, 0)
    buffer.acknowledge(delivery.receipts)
    assert buffer.append([episode("a", 0)]) == 0
    assert buffer.stats()["duplicates"] == 3
    assert buffer.stored_ids(["a/0", "a/1", "a/2"]) == {"a/0", "a/1"}


def test_append_with_an_invalid_episode_stores_nothing(buffer: MemoryBuffer) -> None:
    bad = episode("a", 1)
    bad = replace(bad, turns=(replace(bad.turns[0], logprobs=np.zeros(1, np.float32)),))
    with pytest.raises(CodecError):
        buffer.append([episode("a", 0), bad])
    assert buffer.stored_ids(["a/0", "a/1"]) == frozenset()


def test_redeliver_returns_unacknowledged_episodes_oldest_first(buffer: MemoryBuffer) -> None:
    buffer.append([episode(block, member) for block in "abc" for member in range(2)])
    first = buffer.take({"FRANCE": 1}, 0)
    buffer.take({"FRANCE": 1}, 0)
    buffer.acknowledge(first.receipts)
    buffer.acknowledge(first.receipts)  # already gone: ignored
    buffer.redeliver()
    assert ids(buffer.take({"FRANCE": 2}, 0)) == ["b/0", "b/1", "c/0", "c/1"]
    stats = buffer.stats()
    assert (stats["waiting"], stats["delivered"], stats["acknowledged"]) == (0, 4, 2)


def test_the_rest_of_a_block_whose_episode_was_set_aside_is_delivered_again_at_once(buffer: MemoryBuffer) -> None:
    buffer.append([episode("a", 0), episode("a", 1)])
    first = buffer.take({"FRANCE": 1}, 0)
    buffer.set_aside(first.receipts[0], "a/0", "of no use")
    buffer.redeliver()
    assert ids(buffer.take({"FRANCE": 1}, 0)) == ["a/1"]


def test_acknowledged_receipts_are_not_redelivered(buffer: MemoryBuffer) -> None:
    buffer.append([episode(block, member) for block in "ab" for member in range(2)])
    receipts = buffer.take({"FRANCE": 1}, 0).receipts
    buffer.redeliver()
    buffer.acknowledge(receipts)
    assert ids(buffer.take({"FRANCE": 1}, 0)) == ["b/0", "b/1"]
    assert buffer.stats()["bytes"] > 0
    buffer.acknowledge([Receipt("FRANCE", "3"), Receipt("FRANCE", "4"), Receipt("TURKEY", "99")])
    assert buffer.stats()["bytes"] == 0


def test_take_waits_for_another_thread() -> None:
    buffer = MemoryBuffer(group_timeout_s=60)
    buffer.append([episode("a", 0)])
    later = threading.Timer(0.05, buffer.append, [[episode("a", 1)]])
    later.start()
    try:
        assert ids(buffer.take({"FRANCE": 1}, 30)) == ["a/0", "a/1"]
    finally:
        later.join()


def test_pending_blocks_refuse_blocks_that_are_not_ready() -> None:
    pending = PendingBlocks(group_timeout_s=10)
    pending.add(Receipt("FRANCE", "1"), episode("a", 0), arrived_s=0)
    with pytest.raises(ValueError, match="not ready"):
        pending.take({"FRANCE": 1}, now_s=5)
    assert Receipt("FRANCE", "1") in pending


def test_a_block_is_complete_without_an_episode_that_cannot_be_read() -> None:
    pending = PendingBlocks(group_timeout_s=10)
    for member in range(2):
        episode = synthetic_episode("b1", member, block_size=3)
        pending.add(Receipt("FRANCE", f"{member}-0"), episode, arrived_s=0.0)
    pending.add_unreadable("ITALY", "b1/2")
    pending.add_unreadable("FRANCE", "b2/0")
    assert pending.missing({"FRANCE": 1}, now_s=1.0) == {"FRANCE": 1}
    pending.add_unreadable("FRANCE", "b1/2")
    pending.add_unreadable("FRANCE", "b1/2")
    assert len(pending.take({"FRANCE": 1}, now_s=1.0).episodes) == 2


def test_an_unreadable_entry_with_the_id_of_an_episode_does_not_complete_its_block() -> None:
    pending = PendingBlocks(group_timeout_s=10)
    pending.add(Receipt("FRANCE", "1-0"), episode("a", 0), arrived_s=0.0)
    pending.add_unreadable("FRANCE", "a/0")
    pending.add(Receipt("FRANCE", "2-0"), episode("a", 0), arrived_s=0.0)  # a second entry of the same episode
    assert pending.missing({"FRANCE": 1}, now_s=1.0) == {"FRANCE": 1}
    pending.add(Receipt("FRANCE", "3-0"), episode("a", 1), arrived_s=0.0)
    assert ids(pending.take({"FRANCE": 1}, now_s=1.0)) == ["a/0", "a/0", "a/1"]
