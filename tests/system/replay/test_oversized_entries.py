"""Entries that are too large: set aside by their size, without being sent, kept or decoded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import redis

from services.replay.buffer import NAMELESS, ReplayError
from services.replay.redis_store import buffer as redis_buffer
from services.replay.redis_store.buffer import MIB, POISON_BYTES, RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system


def add(raw: redis.Redis, run: str, data: bytes, name: str = "big/0") -> None:
    raw.xadd(f"entente:{run}:episodes:FRANCE", {"id": name, "episode": data})


def sent(raw: redis.Redis) -> int:
    """Bytes that the server has sent."""
    stats: Any = raw.info("stats")
    return int(stats["total_net_output_bytes"])


def test_an_entry_of_100_mb_is_set_aside_and_not_sent(
    own_server: EmbeddedServer, connect: Callable[..., RedisBuffer], run: str
) -> None:
    learner, raw = connect(own_server.url, run), redis.Redis.from_url(own_server.url)
    learner.append([episode("a", 0)])
    add(raw, run, b"ENT\1" + bytes(100_000_000))
    add(raw, run, b"x", "y" * 70_000_000)
    learner.append([episode("a", 1)])
    before = sent(raw)
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    assert sent(raw) - before < MIB
    assert learner.stats()["poison"] == 2
    assert {name for name in learner.unreadable_ids("FRANCE") if not name.startswith(NAMELESS)} == {"big/0"}
    kept: Any = raw.xrange(f"entente:{run}:poison")
    assert [fields[b"episode"] for _, fields in kept] == [b"", b""]
    assert kept[0][1][b"bytes"] == str(len("id" + "big/0" + "episode") + 4 + 100_000_000).encode()
    assert b"takes 95.4 MiB, over redis.max_episode_mib = 64" in kept[0][1][b"reason"]
    assert learner.memory()["used"] < 64 * MIB


def test_poison_is_bounded_in_bytes(own_server: EmbeddedServer, connect: Callable[..., RedisBuffer], run: str) -> None:
    learner, raw = connect(own_server.url, run), redis.Redis.from_url(own_server.url)
    learner.append(block("a"))
    for number in range(60):
        add(raw, run, bytes(2 * MIB), f"big/{number}")
    add(raw, run, bytes(POISON_BYTES), "small/0")
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    assert learner.stats()["poison"] == 61
    used: Any = raw.memory_usage(f"entente:{run}:poison", samples=0)
    assert used < MIB


def test_one_read_is_bounded_in_bytes(
    server: EmbeddedServer, connect: Callable[..., RedisBuffer], run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes = [synthetic_episode(f"b{number}", 0, block_size=1) for number in range(20)]
    size = len(redis_buffer.encode(episodes[0]))
    monkeypatch.setattr(redis_buffer, "_READ_BYTES", 3 * size)
    learner = connect(server.url, run)
    learner.append(episodes)
    reads = _count_entries(learner, monkeypatch)
    names = [episode.episode_id for episode in episodes]
    delivery = learner.take({"FRANCE": 20}, 0)
    assert ids(delivery) == names
    assert sum(reads) == 20
    assert max(reads) <= 5
    learner.redeliver()
    assert sum(reads) == 40
    assert max(reads) <= 5
    assert ids(learner.take({"FRANCE": 20}, 0)) == names


def _count_entries(learner: RedisBuffer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many entries each read and claim returns."""
    found: list[int] = []
    run = learner._run_as_learner

    def counted(script: Callable[..., Any], keys: list[str], arguments: list[Any]) -> Any:
        reply = run(script, keys, arguments)
        if script in (learner._read, learner._claim):
            found.append(len(reply[-1]))
        return reply

    monkeypatch.setattr(learner, "_run_as_learner", counted)
    return found


def test_an_entry_that_an_earlier_learner_read_is_set_aside_too(server: EmbeddedServer, run: str) -> None:
    earlier, later = (RedisBuffer(server.url, run, 600, 5, max_entry_bytes=limit) for limit in (64 * MIB, 2_000))
    large = synthetic_episode("a", 0, block_size=1)
    earlier.append([large, episode("b", 0, size=1)])
    assert ids(earlier.take({"FRANCE": 2}, 0)) == ["a/0", "b/0"]
    earlier.close()
    later.redeliver()
    assert ids(later.take({"FRANCE": 1}, 0)) == ["b/0"]
    assert later.unreadable_ids("FRANCE") == {"a/0"}
    with pytest.raises(ReplayError, match=r"episode c/0 takes .* over redis.max_episode_mib = .*: raise that limit"):
        later.append([synthetic_episode("c", 0, block_size=1)])
    assert later.stored_ids(["c/0"]) == frozenset()
    later.close()


@pytest.mark.parametrize("room", [512, 1024])
def test_an_entry_with_a_long_name_is_refused_or_delivered(server: EmbeddedServer, run: str, room: int) -> None:
    wide = "\U0001f600" * 198 + "/0"  # 794 bytes
    long = dataclasses.replace(episode("a", 0, size=1), episode_id=wide)
    buffer = RedisBuffer(server.url, run, 600, 5, max_entry_bytes=len(redis_buffer.encode(long)) + room)
    refused = room < len(wide.encode())
    with pytest.raises(ReplayError, match="raise that limit") if refused else nullcontext():
        buffer.append([long])
    if not refused:
        assert ids(buffer.take({"FRANCE": 1}, 0)) == [wide]
    assert buffer.stats()["poison"] == 0
    buffer.close()
