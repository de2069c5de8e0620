"""What the Redis buffer delivers, keeps and counts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from services.replay.buffer import NAMELESS, BlocksMissingError, Receipt, ReplayBuffer
from services.replay.codec import SCHEMA_VERSION, encode
from services.replay.redis_store import buffer as redis_buffer
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system


def test_memory_returns_use_and_limit_of_the_server(
    own_server: EmbeddedServer, connect: Callable[..., RedisBuffer], run: str
) -> None:
    buffer = connect(own_server.url, run)
    before = buffer.memory()
    assert before.keys() == {"used"}  # the embedded server is given no limit
    buffer.append([episode("b0", member, turns=200) for member in range(2)])
    with redis.Redis.from_url(own_server.url) as client:
        client.config_set("maxmemory", 64 << 20)
    after = buffer.memory()
    assert after["used"] > before["used"] > 0
    assert after["limit"] == 64 << 20


def test_take_returns_whole_blocks_oldest_first_and_acknowledge_deletes_them(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    rollout, learner = connect(server.url, run), connect(server.url, run)
    kept: ReplayBuffer = rollout
    assert kept.append([episode("a", 0), *block("b"), episode("i", 0, "ITALY"), episode("a", 1)]) == 5
    assert rollout.append([episode("a", 0), episode("i", 1, "ITALY"), episode("i", 1, "ITALY")]) == 1
    first = learner.take({"ITALY": 1, "FRANCE": 1}, 1)
    assert ids(first) == ["i/0", "i/1", "a/0", "a/1"]
    assert learner.stats() == rollout.stats() | {
        "waiting": 2,
        "delivered": 4,
        "waiting/FRANCE": 2,
        "waiting/ITALY": 0,
    }
    learner.acknowledge(first.receipts)
    learner.acknowledge([*first.receipts, Receipt("TURKEY", "1-0")])  # unknown receipts are ignored
    stats = learner.stats()
    assert (stats["waiting"], stats["delivered"], stats["acknowledged"], stats["duplicates"]) == (2, 0, 4, 2)
    assert rollout.stored_ids(["a/0", "b/1", "c/0"]) == {"a/0", "b/1"}
    assert rollout.append([episode("a", 1)]) == 0  # acknowledged, and still known


def test_missing_blocks_are_named_and_the_others_stay(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    learner.append([*block("a"), episode("i", 0, "ITALY")])
    with pytest.raises(BlocksMissingError, match=r"ITALY lacks 1 block\(s\) \(1 episode.*TURKEY lacks 2.*nothing"):
        learner.take({"FRANCE": 1, "ITALY": 1, "TURKEY": 2}, 0.1)
    assert learner.stats()["waiting"] == 3
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]


def test_take_waits_for_a_new_role(server: EmbeddedServer, connect: Any, run: str) -> None:
    rollout, learner = connect(server.url, run), connect(server.url, run)
    later = threading.Timer(0.3, rollout.append, [block("t", "TURKEY")])
    later.start()
    assert ids(learner.take({"TURKEY": 1}, 30)) == ["t/0", "t/1"]
    later.join()


def test_incomplete_block_is_delivered_at_the_group_timeout(server: EmbeddedServer, connect: Any, run: str) -> None:
    patient = connect(server.url, run)
    patient.append([episode("a", 0)])
    with pytest.raises(BlocksMissingError):
        patient.take({"FRANCE": 1}, 1)
    patient.close()
    learner = connect(server.url, run, group_timeout_s=0.5)
    assert ids(learner.take({"FRANCE": 1}, 30)) == ["a/0"]
    learner.append([episode("a", 1)])
    assert ids(learner.take({"FRANCE": 1}, 30)) == ["a/1"]


def test_returning_learner_gets_its_unacknowledged_episodes(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    for name in "abcd":
        learner.append(block(name))
    learner.acknowledge(learner.take({"FRANCE": 1}, 0).receipts)
    used = learner.take({"FRANCE": 1}, 0)
    learner.take({"FRANCE": 1}, 0)
    learner.close()

    back = connect(server.url, run)
    back.acknowledge(used.receipts)  # a durable checkpoint had used them
    back.redeliver()
    back.append(block("e"))
    assert ids(back.take({"FRANCE": 3}, 1)) == ["c/0", "c/1", "d/0", "d/1", "e/0", "e/1"]
    back.redeliver()
    assert ids(back.take({"FRANCE": 1}, 1)) == ["c/0", "c/1"]


def test_new_learner_gets_the_episodes_of_a_dead_one_without_redeliver(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    learner = connect(server.url, run)
    learner.append([*block("a"), *block("b")])
    learner.take({"FRANCE": 1}, 0)
    learner.close()
    assert ids(connect(server.url, run).take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]


def test_many_entries_are_read_acknowledged_and_redelivered(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    episodes = [episode(f"b{number}", member) for number in range(600) for member in range(2)]
    assert learner.append(episodes) == 1200
    learner.take({"FRANCE": 550}, 10)
    learner.redeliver()
    delivery = learner.take({"FRANCE": 600}, 10)
    assert ids(delivery) == [episode.episode_id for episode in episodes]
    learner.acknowledge(delivery.receipts)
    assert learner.stats()["acknowledged"] == 1200
    assert learner.stats()["waiting/FRANCE"] == 0


def test_oldest_block_is_first_even_if_completed_late(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    learner.append([episode("a", 0), *(e for number in range(50) for e in block(f"b{number}")), episode("a", 1)])
    assert ids(learner.take({"FRANCE": 1}, 1)) == ["a/0", "a/1"]


def test_unreadable_entries_are_set_aside_counted_and_bounded(
    server: EmbeddedServer, connect: Any, run: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redis_buffer, "POISON_KEPT", 3)
    learner = connect(server.url, run)
    learner.append([episode("a", 0)])
    raw = redis.Redis.from_url(server.url)
    stream = f"entente:{run}:episodes:FRANCE"
    newer = bytearray(encode(episode("n", 0)))
    newer[3] = SCHEMA_VERSION + 1
    for fields in (
        {"episode": b"garbage"},
        {"something": b"else"},
        {"id": "i/0", "episode": encode(episode("i", 0, "ITALY"))},
        {"id": "n/0", "episode": bytes(newer)},
    ):
        raw.xadd(stream, fields)
    learner.append([episode("a", 1)])
    with caplog.at_level(logging.WARNING):
        assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    assert learner.stats()["poison"] == 4
    assert "written by a newer version" in caplog.text
    kept: Any = raw.xrange(f"entente:{run}:poison")
    assert len(kept) == 3
    facts = kept[-1][1]
    assert facts[b"id"] == b"n/0"
    unreadable = learner.unreadable_ids("FRANCE")
    assert {name for name in unreadable if not name.startswith(NAMELESS)} == {"i/0", "n/0"}
    assert len(unreadable) == 4
    assert learner.unreadable_ids("ITALY") == frozenset()
    assert facts[b"episode"] == bytes(newer)
    assert b"newer version" in facts[b"reason"]
    learner.redeliver()  # unreadable entries are not delivered again
    assert learner.stats()["poison"] == 4
    assert learner.stats()["waiting"] == 2


def test_workers_that_play_the_same_blocks_store_each_episode_once(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    episodes = [episode for number in range(10) for episode in block(f"b{number}", size=3)]
    stored = [0] * 4

    def play(worker: int) -> None:
        buffer = connect(server.url, run)
        for played in episodes if worker % 2 else reversed(episodes):
            stored[worker] += buffer.append([played])

    workers = [threading.Thread(target=play, args=[worker]) for worker in range(4)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)
    assert sum(stored) == 30
    learner = connect(server.url, run)
    assert sorted(ids(learner.take({"FRANCE": 10}, 120))) == sorted(e.episode_id for e in episodes)
    assert learner.stats()["duplicates"] == 90


def test_a_block_is_delivered_at_once_without_its_unreadable_episode(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    learner = connect(server.url, run)
    learner.append([episode("a", 0, size=3), episode("a", 1, size=3), *block("b")])
    raw = redis.Redis.from_url(server.url)
    raw.xadd(f"entente:{run}:episodes:FRANCE", {"id": "a/2", "episode": b"garbage"})
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    learner.redeliver()  # as after a restart: the entry is gone, its name is not
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    learner.close()
    assert ids(connect(server.url, run).take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]
