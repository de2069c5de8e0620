from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt, ReplayBuffer, ReplayError, ServerLostError
from services.replay.codec import SCHEMA_VERSION, encode
from services.replay.memory_buffer import MemoryBuffer
from services.replay.redis_store import buffer as redis_buffer
from services.replay.redis_store import learner_lock
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.system.support.cutting_proxy import CuttingProxy

pytestmark = pytest.mark.system

runs = (f"run-{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server for tests that change its settings or stop it."""
    with EmbeddedServer.start(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def connect() -> Iterator[Callable[..., RedisBuffer]]:
    """A function that makes buffers, which are closed after the test."""
    made: list[RedisBuffer] = []

    def make(
        url: str,
        run: str,
        group_timeout_s: float = 600,
        connect_timeout_s: float = 5,
        answer_timeout_s: float | None = None,
    ) -> RedisBuffer:
        made.append(RedisBuffer(url, run, group_timeout_s, connect_timeout_s, answer_timeout_s=answer_timeout_s))
        return made[-1]

    yield make
    for buffer in made:
        buffer.close()


@pytest.fixture
def run() -> str:
    return next(runs)


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


def episode(block: str, member: int, role: str = "FRANCE", size: int = 2, turns: int = 1) -> Episode:
    return synthetic_episode(block, member, role=role, block_size=size, turns=turns, completion_tokens=10)


def block(name: str, role: str = "FRANCE", size: int = 2) -> list[Episode]:
    return [episode(name, member, role, size) for member in range(size)]


def ids(delivery: Delivery) -> list[str]:
    return [episode.episode_id for episode in delivery.episodes]


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
    learner.acknowledge([*first.receipts, Receipt("TURKEY", "1-0")])  # gone or never there: ignored
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
    learner = connect(server.url, run, group_timeout_s=0.5)
    learner.append([episode("a", 0)])
    with pytest.raises(BlocksMissingError):
        learner.take({"FRANCE": 1}, 0)
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


def test_poison_is_set_aside_counted_and_bounded(
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
    assert learner.unreadable_ids("FRANCE") == {"i/0", "n/0"}
    assert learner.unreadable_ids("ITALY") == frozenset()
    assert facts[b"episode"] == bytes(newer)
    assert b"newer version" in facts[b"reason"]
    learner.redeliver()  # poison is not delivered again
    assert learner.stats()["poison"] == 4
    assert learner.stats()["waiting"] == 2


def test_out_of_memory_delays_producers_and_not_the_learner(own_server: EmbeddedServer, connect: Any, run: str) -> None:
    rollout, learner = connect(own_server.url, run), connect(own_server.url, run)
    raw = redis.Redis.from_url(own_server.url)
    big = [synthetic_episode(f"b{n}", m, block_size=2) for n in range(40) for m in range(2)]
    rollout.append(big[:40])
    raw.execute_command("XADD", f"entente:{run}:episodes:FRANCE", "*", "episode", "poison")
    raw.config_set("maxmemory", raw.info("memory")["used_memory"] - 1)
    impatient = connect(own_server.url, run, answer_timeout_s=0.2)
    with pytest.raises(ServerLostError, match=r"out of memory, and nothing was freed for 0.2 s: raise its maxmemory"):
        impatient.append(big[40:])
    assert rollout.stored_ids([big[40].episode_id]) == frozenset()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(rollout.append, big[40:44])
        delivery = learner.take({"FRANCE": 20}, 120)
        assert not waiting.done()
        learner.acknowledge(delivery.receipts)
        assert waiting.result(120) == 4
    assert learner.stats()["acknowledged"] == 40
    assert learner.stats()["poison"] == 1


def test_evicting_server_is_refused(own_server: EmbeddedServer, connect: Any, run: str) -> None:
    raw = redis.Redis.from_url(own_server.url)
    raw.config_set("maxmemory", "1gb")
    raw.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ReplayError, match="maxmemory-policy noeviction"):
        connect(own_server.url, run)


def test_server_without_a_durable_file_gives_a_warning(
    own_server: EmbeddedServer, connect: Any, run: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        connect(own_server.url, run)
        assert not caplog.records
        redis.Redis.from_url(own_server.url).config_set("appendonly", "no")
        connect(own_server.url, run)
    assert "set appendonly yes" in caplog.text
    assert own_server.url.split(":")[2].split("@")[0] not in caplog.text  # the password


def test_unreachable_server_raises_without_its_password(run: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        ReplayError, match=rf"no Redis server answers at redis://me:\*\*\*@127.0.0.1:{port}/0"
    ) as raised:
        RedisBuffer(f"redis://me:secret@127.0.0.1:{port}/0", run, 10, connect_timeout_s=0.3)
    assert "secret" not in str(raised.value)
    assert "Without [redis] url a run starts one in its folder" in str(raised.value)
    with pytest.raises(ReplayError) as raised:
        RedisBuffer(f"redis://127.0.0.1:{port}/0?password=secret", run, 10, connect_timeout_s=0.3)
    assert "secret" not in str(raised.value)


def test_wrong_password_and_wrong_url_raise(server: EmbeddedServer, run: str) -> None:
    with pytest.raises(ReplayError, match="check user and password"):
        RedisBuffer(f"redis://:wrong@127.0.0.1:{server.port}/0", run, 10, 5)
    with pytest.raises(ReplayError, match="is no Redis address"):
        RedisBuffer("localhost:6379", run, 10, 5)
    with pytest.raises(ValueError, match="run id"):
        RedisBuffer(server.url, "two words", 10, 5)


def test_stopped_server_raises_in_time_and_loses_nothing(own_server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(own_server.url, run, connect_timeout_s=2.0)
    learner.append(block("a"))
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ReplayError, match="no Redis server answers"):
            learner.take({"FRANCE": 1}, 120)
        with pytest.raises(ReplayError, match="no Redis server answers"):
            learner.append(block("b"))
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    learner.append(block("b"))
    delivery = learner.take({"FRANCE": 2}, 120)
    assert sorted(ids(delivery)) == ["a/0", "a/1", "b/0", "b/1"]


def test_stalled_server_is_waited_for(own_server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(own_server.url, run, connect_timeout_s=2.0, answer_timeout_s=60)
    os.kill(own_server.pid, signal.SIGSTOP)
    waking = threading.Timer(5.0, os.kill, (own_server.pid, signal.SIGCONT))
    waking.start()
    try:
        learner.append(block("a"))
    finally:
        waking.join()
    assert sorted(ids(learner.take({"FRANCE": 1}, 120))) == ["a/0", "a/1"]


def test_removed_data_raises(own_server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(own_server.url, run)
    learner.append(block("a"))
    learner.take({"FRANCE": 1}, 0)
    redis.Redis.from_url(own_server.url).flushall()
    with pytest.raises(ReplayError, match="no longer has this run's episodes"):
        learner.take({"FRANCE": 1}, 0)


@pytest.mark.parametrize("word", [b"b1/0", b"evalsha"])
def test_lost_reply_neither_loses_nor_repeats_an_append(
    server: EmbeddedServer, connect: Any, run: str, word: bytes
) -> None:
    password = server.url.split("@")[0]
    with CuttingProxy(server.port) as proxy:
        rollout = connect(f"{password}@127.0.0.1:{proxy.port}/0", run)
        rollout.append(block("b0"))
        proxy.lose_reply_to(word if word != b"evalsha" else b"EVALSHA")
        assert rollout.append(block("b1")) == 2
        assert proxy.cuts == 1
        assert rollout.append(block("b1")) == 0
        assert rollout.stats()["duplicates"] == 2
        learner = connect(server.url, run)
        assert ids(learner.take({"FRANCE": 2}, 1)) == ["b0/0", "b0/1", "b1/0", "b1/1"]


def test_lost_reply_neither_loses_nor_reorders_read_episodes(server: EmbeddedServer, connect: Any, run: str) -> None:
    password = server.url.split("@")[0]
    with CuttingProxy(server.port) as proxy:
        learner = connect(f"{password}@127.0.0.1:{proxy.port}/0", run)
        rollout = connect(server.url, run)
        rollout.append(block("a"))
        first = learner.take({"FRANCE": 1}, 1)
        rollout.append([*block("b"), episode("c", 0)])
        proxy.lose_reply_to(b"EVALSHA")  # of the read
        assert ids(learner.take({"FRANCE": 1}, 120)) == ["b/0", "b/1"]
        assert proxy.cuts == 1
        rollout.append([episode("c", 1), *block("d")])
        proxy.lose_reply_to(b"EVALSHA")
        learner.acknowledge(first.receipts)
        assert proxy.cuts == 2
        assert learner.stats()["acknowledged"] == 2
        assert ids(learner.take({"FRANCE": 2}, 120)) == ["c/0", "c/1", "d/0", "d/1"]
        learner.close()


def test_killed_connections_are_reopened(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    raw = redis.Redis.from_url(server.url)
    for name in "abc":
        raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert learner.append(block(name)) == 2
        raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert ids(learner.take({"FRANCE": 1}, 120)) == [f"{name}/0", f"{name}/1"]


def test_second_learner_of_a_run_is_refused(server: EmbeddedServer, connect: Any, run: str) -> None:
    first, second = connect(server.url, run), connect(server.url, run)
    first.append(block("a"))
    first.redeliver()
    for attempt in (lambda: second.take({"FRANCE": 1}, 0), second.redeliver, lambda: second.acknowledge([RECEIPT])):
        with pytest.raises(ReplayError, match=f"already has a learner: process {os.getpid()} on "):
            attempt()
    assert second.append(block("b")) == 2  # rollouts may
    assert ids(first.take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]
    first.close()
    assert ids(second.take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]


RECEIPT = Receipt("FRANCE", "1-1")


def owner_elsewhere(server: EmbeddedServer, run: str, ttl_ms: int) -> tuple[redis.Redis, str]:
    raw, key = redis.Redis.from_url(server.url), f"entente:{run}:learner"
    raw.set(key, json.dumps({"host": "far", "machine": "other", "pid": 1, "started": 0, "token": "t"}), px=ttl_ms)
    return raw, key


def test_dead_local_learner_is_replaced_at_once(server: EmbeddedServer, connect: Any, run: str) -> None:
    raw, key = owner_elsewhere(server, run, 600_000)
    raw.set(
        key,
        json.dumps(
            {"host": "near", "machine": learner_lock._machine(), "pid": os.getpid(), "started": 1.0, "token": "t"}
        ),
    )
    learner = connect(server.url, run)  # the holder's process id is ours, but its start time is not
    learner.redeliver()
    assert json.loads(raw.get(key) or "")["started"] > 1.0  # type: ignore[arg-type]


def test_remote_learner_is_replaced_when_its_lock_expires(server: EmbeddedServer, connect: Any, run: str) -> None:
    owner_elsewhere(server, run, 700)
    learner = connect(server.url, run)
    learner.append(block("a"))
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]


def test_remote_learner_that_renews_its_lock_is_not_replaced(server: EmbeddedServer, connect: Any, run: str) -> None:
    raw, key = owner_elsewhere(server, run, 5_000)
    renewal = threading.Timer(0.5, raw.pexpire, [key, 20_000])
    renewal.start()
    with pytest.raises(ReplayError, match="already has a learner: process 1 on far"):
        connect(server.url, run).redeliver()
    renewal.join()


def test_lock_is_renewed_while_its_holder_is_alive(
    server: EmbeddedServer, connect: Any, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_lock, "LOCK_TTL_S", 6.0)
    first, second = connect(server.url, run), connect(server.url, run)
    first.redeliver()
    time.sleep(8.0)
    with pytest.raises(ReplayError, match="already has a learner"):
        second.redeliver()


def test_suspended_and_replaced_learner_cannot_change_the_buffer(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    suspended, successor = connect(server.url, run), connect(server.url, run)
    suspended.append([*block("a"), *block("b")])
    old = suspended.take({"FRANCE": 1}, 0)
    redis.Redis.from_url(server.url).delete(f"entente:{run}:learner")  # as if it had expired
    assert ids(successor.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    suspended.append(block("c"))
    for attempt in (lambda: suspended.take({"FRANCE": 1}, 0), lambda: suspended.acknowledge(old.receipts)):
        with pytest.raises(ReplayError, match="already has a learner"):
            attempt()
    assert ids(successor.take({"FRANCE": 2}, 0)) == ["b/0", "b/1", "c/0", "c/1"]


def test_learner_whose_lock_expired_unclaimed_continues(server: EmbeddedServer, connect: Any, run: str) -> None:
    learner = connect(server.url, run)
    learner.append([*block("a"), *block("b")])
    first = learner.take({"FRANCE": 1}, 0)
    redis.Redis.from_url(server.url).delete(f"entente:{run}:learner")
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["b/0", "b/1"]
    learner.acknowledge(first.receipts)
    assert learner.stats()["acknowledged"] == 2


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
