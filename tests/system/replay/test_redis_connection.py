"""What the Redis buffer does when the server is full, wrongly set, unreachable, stalled or loses a reply."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from services.replay.buffer import ReplayError, ServerLostError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.system.support.cutting_proxy import CuttingProxy
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system


def test_a_full_server_delays_producers_and_not_the_learner(own_server: EmbeddedServer, connect: Any, run: str) -> None:
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
