"""The lock that keeps a run to one learner: refusal, takeover, renewal and expiry."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest
import redis

from services.replay.buffer import BlocksMissingError, Receipt, ReplayError
from services.replay.redis_store import learner_lock
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import block, ids

pytestmark = pytest.mark.system


RECEIPT = Receipt("FRANCE", "1-1")


def owner_elsewhere(server: EmbeddedServer, run: str, ttl_ms: int) -> tuple[redis.Redis, str]:
    raw, key = redis.Redis.from_url(server.url), f"entente:{run}:learner"
    raw.set(key, json.dumps({"host": "far", "machine": "other", "pid": 1, "started": 0, "token": "t"}), px=ttl_ms)
    return raw, key


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
    extension = threading.Timer(0.5, raw.pexpire, [key, 20_000])
    extension.start()
    with pytest.raises(ReplayError, match="already has a learner: process 1 on far"):
        connect(server.url, run).redeliver()
    extension.join()


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


@pytest.mark.parametrize("asks_meanwhile", [False, True])
def test_learner_that_lost_its_lock_delivers_nothing_that_a_successor_used(
    server: EmbeddedServer, connect: Any, run: str, asks_meanwhile: bool
) -> None:
    suspended, successor = connect(server.url, run), connect(server.url, run)
    suspended.append([*block("a"), *block("b"), *block("c")])
    old = suspended.take({"FRANCE": 1}, 0)
    redis.Redis.from_url(server.url).delete(f"entente:{run}:learner")  # as if it had expired
    used = successor.take({"FRANCE": 2}, 0)
    assert ids(used) == ["a/0", "a/1", "b/0", "b/1"]
    successor.acknowledge(used.receipts)
    successor.append(block("d"))
    assert ids(successor.take({"FRANCE": 1}, 0)) == ["c/0", "c/1"]
    if asks_meanwhile:
        with pytest.raises(ReplayError, match="already has a learner"):
            suspended.take({"FRANCE": 1}, 0)
    successor.close()
    suspended.append(block("e"))
    delivery = suspended.take({"FRANCE": 3}, 0)
    assert ids(delivery) == ["c/0", "c/1", "d/0", "d/1", "e/0", "e/1"]
    suspended.acknowledge([*old.receipts, *delivery.receipts])
    stats = suspended.stats()
    assert (stats["acknowledged"], stats["waiting"], stats["delivered"]) == (10, 0, 0)


def test_what_a_learner_has_when_its_lock_expires_is_delivered_and_acknowledged_once(
    server: EmbeddedServer, connect: Any, run: str
) -> None:
    learner, raw = connect(server.url, run), redis.Redis.from_url(server.url)
    learner.append([*block("a"), *block("b"), *block("c", role="ITALY")])
    deliveries = []
    for role in ("FRANCE", "FRANCE", "ITALY"):
        raw.delete(f"entente:{run}:learner")
        deliveries.append(learner.take({role: 1}, 0))
        raw.delete(f"entente:{run}:learner")
        learner.stats()
    assert [name for delivery in deliveries for name in ids(delivery)] == ["a/0", "a/1", "b/0", "b/1", "c/0", "c/1"]
    raw.delete(f"entente:{run}:learner")
    for delivery in deliveries:
        learner.acknowledge(delivery.receipts)
    assert learner.stats()["acknowledged"] == 6
    with pytest.raises(BlocksMissingError):
        learner.take({"FRANCE": 1}, 0)
