"""Values on the server that no run wrote: set aside, replaced or refused in one line, and the run's own are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from services.replay.buffer import NAMELESS, BlocksMissingError, ReplayError
from services.replay.codec import encode
from services.replay.redis_store import replies
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system

FOREIGN = (b"\xff\xfe", b"[" * 100_000, b"{}", b'{"pid": "x"}', b"\x1b[31m", b"5", b"x" * 10_000_000)


@pytest.fixture
def raw(server: EmbeddedServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def is_one_line(error: Exception) -> bool:
    return str(error).isprintable() and len(str(error)) <= 500


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: value[:8])
def test_a_lock_that_no_learner_wrote_is_taken(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis, value: bytes
) -> None:
    raw.set(f"entente:{run}:learner", value)
    learner = connect(server.url, run)
    learner.append([*block("a"), *block("b")])
    first = learner.take({"FRANCE": 1}, 0)
    raw.set(f"entente:{run}:learner", value)  # while the learner holds it
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["b/0", "b/1"]
    learner.acknowledge(first.receipts)
    assert learner.stats()["acknowledged"] == 2


def test_a_lock_of_another_type_is_taken(server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis) -> None:
    raw.lpush(f"entente:{run}:learner", "x")
    learner = connect(server.url, run)
    learner.append(block("a"))
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    with pytest.raises(ReplayError, match="already has a learner"):
        connect(server.url, run).redeliver()


def test_a_foreign_host_in_a_lock_is_shown_in_one_line(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis
) -> None:
    learner = connect(server.url, run)
    learner.redeliver()
    holder = {"host": "far\x1b[31m\n" + "x" * 700, "machine": "other", "pid": 1, "started": 0, "token": "t"}
    raw.set(f"entente:{run}:learner", json.dumps(holder))
    with pytest.raises(ReplayError, match="process 1 on far") as raised:
        learner.take({"FRANCE": 1}, 0)
    assert is_one_line(raised.value)


@pytest.mark.parametrize(
    "role",
    [b"\xff\xfe", b"FR\x1b[31mANCE", b"", b"R" * 100_000, b"NOWHERE"],
    ids=["utf-8", "escape", "empty", "long", "unknown"],
)
def test_a_foreign_role_is_left_out(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis, role: bytes
) -> None:
    raw.sadd(f"entente:{run}:roles", role)
    learner = connect(server.url, run)
    learner.redeliver()
    learner.append(block("a"))
    learner.acknowledge(learner.take({"FRANCE": 1}, 0).receipts)
    assert learner.stats()["acknowledged"] == 2
    assert connect(server.url, run).stats()["waiting"] == 0


@pytest.mark.parametrize("is_role", [False, True], ids=["entry", "entry and role"])
def test_an_entry_before_the_first_of_a_run_is_set_aside(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis, is_role: bool
) -> None:
    raw.xadd(f"entente:{run}:episodes:FRANCE", {"id": "x/0", "episode": b"x"})
    raw.xadd(f"entente:{run}:episodes:NOWHERE", {"id": "y/0", "episode": b"y"})
    if is_role:
        raw.sadd(f"entente:{run}:roles", "FRANCE", "NOWHERE")
    rollout, learner = connect(server.url, run), connect(server.url, run)
    rollout.append(block("a"))
    assert rollout.stats()["waiting/FRANCE"] == 3
    learner.redeliver()
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    stats = rollout.stats()
    assert (stats["waiting/FRANCE"], stats["delivered"], stats["poison"]) == (0, 2, 1)
    learner.redeliver()
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]


def test_a_set_of_roles_that_was_lost_or_flooded_loses_no_episode(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "MOST_NAMES", 100)
    roles = f"entente:{run}:roles"
    earlier = connect(server.url, run)
    earlier.append([*block("a"), *block("b")])
    earlier.take({"FRANCE": 1}, 0)
    raw.delete(roles)
    raw.sadd(roles, *(b"%d" % number for number in range(5_000)))
    earlier.redeliver()
    assert ids(earlier.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    raw.delete(roles)
    earlier.close()
    later = connect(server.url, run)
    later.redeliver()
    assert ids(later.take({"FRANCE": 2}, 0)) == ["a/0", "a/1", "b/0", "b/1"]


def test_entries_with_foreign_names_are_set_aside(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis
) -> None:
    learner = connect(server.url, run)
    learner.append([episode("a", 0)])
    data = encode(episode("x", 0))
    names = (b"\xff\xfe", b"", b"y/0", b"z" * 1_000_000, b"x/0\n")
    for name in names:
        raw.xadd(f"entente:{run}:episodes:FRANCE", {"id": name, "episode": data})
    raw.xadd(f"entente:{run}:episodes:FRANCE", {b"\xff": b"\xff"})
    learner.append([episode("a", 1)])
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    assert learner.stats()["poison"] == len(names) + 1
    unreadable = learner.unreadable_ids("FRANCE")
    assert {name for name in unreadable if not name.startswith(NAMELESS)} == {"y/0"}
    assert len(unreadable) == len(names) + 1


@pytest.mark.parametrize("key", ["seen", "roles", "counters", "episodes:FRANCE", "poison", "unreadable:FRANCE"])
def test_a_key_of_another_type_is_one_line_and_loses_nothing(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis, key: str
) -> None:
    name = f"entente:{run}:{key}"
    raw.set(name, b"\xff")
    learner, rollout = connect(server.url, run), connect(server.url, run)
    errors = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except BlocksMissingError:
            pass
        except ReplayError as error:
            errors.append(error)

    attempt(lambda: rollout.append([*block("a"), *block("a")]))
    attempt(learner.redeliver)
    raw_stream = f"entente:{run}:episodes:FRANCE"
    if key in ("poison", "unreadable:FRANCE"):
        raw.xadd(raw_stream, {"id": "p/0", "episode": b"poison"})
    attempt(lambda: learner.take({"FRANCE": 1}, 0))
    attempt(lambda: learner.unreadable_ids("FRANCE"))
    attempt(learner.stats)
    assert errors
    assert all(is_one_line(error) for error in errors)
    assert all("not of the type that a run makes" in str(error) for error in errors)
    raw.delete(name)
    rollout.append(block("a"))
    learner.redeliver()
    delivery = learner.take({"FRANCE": 1}, 1)
    assert ids(delivery) == ["a/0", "a/1"]
    learner.acknowledge(delivery.receipts)
    stats = learner.stats()
    assert stats["acknowledged"] == 2
    assert stats["poison"] == (1 if key in ("poison", "unreadable:FRANCE") else 0)


def test_a_counter_that_is_no_number_is_one_line(
    server: EmbeddedServer, connect: Any, run: str, raw: redis.Redis
) -> None:
    learner = connect(server.url, run)
    learner.append(block("a"))
    delivery = learner.take({"FRANCE": 1}, 0)
    raw.hset(f"entente:{run}:counters", "acknowledged", "\x1b[31mmany")
    with pytest.raises(ReplayError, match=r"HDEL entente:.*:counters acknowledged") as raised:
        learner.stats()
    assert is_one_line(raised.value)
    with pytest.raises(ReplayError, match="not of the type that a run makes"):
        learner.acknowledge(delivery.receipts)
    raw.hdel(f"entente:{run}:counters", "acknowledged")
    learner.acknowledge(delivery.receipts)
    assert learner.stats()["acknowledged"] == 2
