"""The Redis buffer and the memory buffer deliver the same for any history of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.replay.buffer import BlocksMissingError, Delivery, Receipt, ReplayBuffer
from services.replay.memory_buffer import MemoryBuffer
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import episode, ids, runs

pytestmark = pytest.mark.system


append_step = st.tuples(
    st.just("append"),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from(["FRANCE", "ITALY"])), max_size=4),
)


take_step = st.tuples(st.just("take"), st.dictionaries(st.sampled_from(["FRANCE", "ITALY"]), st.integers(1, 2)))


other_step = st.tuples(st.sampled_from(["acknowledge", "redeliver", "restart"]), st.integers(0, 5))


@given(st.lists(append_step | take_step | other_step, max_size=25), st.sampled_from([0.0, 3600.0]))
@settings(max_examples=60, deadline=None)
def test_memory_and_redis_buffers_deliver_the_same_for_any_history(
    server: EmbeddedServer, history: Sequence[tuple[str, Any]], group_timeout_s: float
) -> None:
    run = next(runs)
    memory = MemoryBuffer(group_timeout_s)
    real = RedisBuffer(server.url, run, group_timeout_s, 5)
    names: dict[str, tuple[list[Receipt], list[Receipt]]] = {}  # by block, the two receipts of what is delivered
    try:
        for step, what in history:
            if step == "append":
                played = [episode(f"{role}{number}", member, role, 3) for number, member, role in what]
                assert memory.append(played) == real.append(played)
            elif step == "take":
                ours, theirs = attempt(memory, what), attempt(real, what)
                assert (ours and ids(ours)) == (theirs and ids(theirs))
                if ours and theirs:
                    for number, delivered in enumerate(ours.episodes):
                        names[delivered.episode_id] = ([ours.receipts[number]], [theirs.receipts[number]])
            elif step == "acknowledge":
                for name in sorted(names)[:what]:
                    mine, real_ones = names.pop(name)
                    memory.acknowledge(mine)
                    real.acknowledge(real_ones)
            else:
                memory.redeliver()
                if step == "restart":
                    real.close()
                    real = RedisBuffer(server.url, run, group_timeout_s, 5)
                real.redeliver()
            assert comparable(memory.stats()) == comparable(real.stats())
    finally:
        real.close()


def attempt(buffer: ReplayBuffer, blocks: Mapping[str, int]) -> Delivery | None:
    try:
        return buffer.take(blocks, 0)
    except BlocksMissingError:
        return None


def comparable(stats: Mapping[str, float]) -> dict[str, float]:
    """All but the bytes, which differ between the stores, and roles without waiting episodes."""
    return {name: value for name, value in stats.items() if name != "bytes" and (value or "/" not in name)}
