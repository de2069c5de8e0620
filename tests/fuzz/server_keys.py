"""The keys that a run has on its replay server: of another type, with other content, or with more of it.

Everything that a run and its commands do with the server is done once; each part may end in one line. Without the
changed key the run's own episodes must go through again. Those that were stored before are used once each, unless the
key was their stream or their ids.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import redis
from safetensors.numpy import save_file

from cluster.configs.loader import dump_config, load_config
from cluster.drill.replay_client import ReplayClient
from grpo_core.errors import EntenteError
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror, frozen_weights
from services.replay.buffer import BlocksMissingError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.redis_store.learner_lock import _machine
from services.replay.server.embedded import EmbeddedServer
from tests.fuzz.contract import Case, Kind, command
from tests.system.support.replay_blocks import block, ids

RUN = "fuzz"
ROLE = "FRANCE"
KEYS = (
    *("episodes:FRANCE", "roles", "seen", "counters", "poison", "unreadable:FRANCE"),
    *("learner", "population", "population:weights"),
)
# Fields of the hashes among them.
FIELDS: dict[str, tuple[bytes, ...]] = {
    "seen": (b"a/0", b"a/1"),
    "counters": (b"acknowledged", b"duplicates", b"poison"),
    "population": (b"revision", b"document"),
}
HOLDER = {"host": "far", "machine": "other", "pid": 1, "started": 1.0, "token": "t"}
VALUES: tuple[bytes, ...] = (
    *(b"", b"0", b"-1", b"1e999", b"nan", b"9" * 5_000, b"many", b" 7 ", b"7\n"),
    *(b"\xff\xfe\x80", b"\x00", b"\x1b]0;owned\x07\x1b[31mred", b"two\nlines", "\u202eback".encode(), b"x" * 3_000_000),
    *(b"{}", b"[]", b"null", b"[" * 100_000, b'{"a":' * 100_000, b'{"schema": 2}', b'{"schema": "x"}', b"../../x"),
    b'{"schema": 2, "revision": 1, "update": 0, "members": [' + b'{"id":' * 2_000 + b"1" + b"}" * 2_000 + b"]}",
)


@dataclass
class Shared:
    """What all cases of a process use: a server, a run's folder that names it, and its population."""

    server: EmbeddedServer
    raw: redis.Redis
    run_dir: Path
    population: Population


Change = Callable[[redis.Redis], object]


def another_type(rng: random.Random) -> tuple[str, str, Change]:
    """A key is of any type, with a value that no run writes."""
    key, value = rng.choice(KEYS), rng.choice(VALUES)
    kind = rng.choice(("string", "list", "set", "zset", "hash", "stream"))

    def change(raw: redis.Redis) -> None:
        name = full(key)
        raw.delete(name)
        if kind == "string":
            raw.set(name, value)
        elif kind == "list":
            raw.lpush(name, value)
        elif kind == "set":
            raw.sadd(name, value)
        elif kind == "zset":
            raw.zadd(name, {value: 1.0})
        elif kind == "hash":
            raw.hset(name, value, value)
        else:
            raw.xadd(name, {value: value})

    return f"{key} is a {kind} of {value[:20]!r}", key, change


def another_field(rng: random.Random) -> tuple[str, str, Change]:
    """A field of a hash has another value, or there is one more field."""
    key, value = rng.choice(list(FIELDS)), rng.choice(VALUES)
    field = rng.choice((*FIELDS[key], rng.choice(VALUES)))
    return f"{key}[{field[:20]!r}] is {value[:20]!r}", key, lambda raw: raw.hset(full(key), field, value)


def another_member(rng: random.Random) -> tuple[str, str, Change]:
    """A set has one more member, or thousands."""
    key, value = rng.choice(("roles", "unreadable:FRANCE")), rng.choice(VALUES)
    members = [value] if rng.random() < 0.8 else [value[:50] + b"%d" % number for number in range(2_000)]
    return f"{key} has {len(members)} more: {value[:20]!r}", key, lambda raw: raw.sadd(full(key), *members)


def another_holder(rng: random.Random) -> tuple[str, str, Change]:
    """The lock names another learner: dead, elsewhere, or in another way than a learner writes it."""
    value: Any = rng.choice((None, True, -1, 2**70, 1e300, "", "\x1b[31m", "x" * 5_000, [1], {"a": 1}, os.getpid()))
    holder: dict[str, Any] = {**HOLDER, "machine": _machine()}  # here, so that it is no wait
    name = rng.choice(list(holder))
    holder[name] = value
    if rng.random() < 0.2:
        del holder[name]
    if holder.get("machine") != _machine() and rng.random() < 0.9:
        holder["machine"] = _machine()
    text = json.dumps(holder).encode()
    lasts = rng.choice((None, 100, 1_000))  # milliseconds
    return f"learner: {name} is {value!r}"[:80], "learner", lambda raw: raw.set(full("learner"), text, px=lasts)


def another_weight(rng: random.Random) -> tuple[str, str, Change]:
    """A mirrored policy is other bytes, also under a name that is no checksum."""
    value = rng.choice(VALUES)

    def change(raw: redis.Redis) -> None:
        names: Any = raw.hkeys(full("population:weights"))
        raw.hset(full("population:weights"), rng.choice((*names, value)), value)

    return f"population:weights has {value[:20]!r}", "population:weights", change


def no_key(rng: random.Random) -> tuple[str, str, Change]:
    """A key is gone, or lasts for a moment."""
    key = rng.choice(KEYS)
    return f"{key} is gone", key, lambda raw: raw.delete(full(key))


CHANGES = (
    another_type,
    another_type,
    another_field,
    another_field,
    another_member,
    another_holder,
    another_weight,
    no_key,
)


def full(key: str) -> str:
    return f"entente:{RUN}:{key}"


def cases(rng: random.Random) -> Iterator[Case]:
    while True:
        name, key, change = rng.choice(CHANGES)(rng)
        yield Case(name, (key, change, rng.random() < 0.3))


def run(case: Case, folder: Path, shared: Shared) -> None:
    key, change, at_first = case.input
    raw = shared.raw
    raw.flushdb()
    mirror = PopulationMirror(shared.server.url, RUN, connect_timeout_s=10, limit_mib=1)
    learner, rollout = (RedisBuffer(shared.server.url, RUN, 600.0, 10.0) for _ in range(2))
    try:
        if not at_first:  # the run is under way
            mirror.publish(shared.population.document(), shared.population.path)
            rollout.append([*block("a"), *block("b")])
            learner.take({ROLE: 1}, 0.0)
        change(raw)
        used = use_everything(learner, rollout, mirror, shared)
        raw.delete(full(key))
        learner.close()
        if not at_first and key not in ("episodes:FRANCE", "seen"):
            found = Counter([*used, *what_is_left(shared)])
            assert all(found[name] == 1 for name in ("a/0", "a/1", "b/0", "b/1")), found
        works_again(shared)
    finally:
        learner.close()
        rollout.close()
        mirror.close()


def use_everything(learner: RedisBuffer, rollout: RedisBuffer, mirror: PopulationMirror, shared: Shared) -> list[str]:
    """Do all that a run does; returns the ids of the episodes that it used."""
    used: list[str] = []
    population, elsewhere = shared.population, shared.run_dir / "elsewhere" / "population.json"
    member = population["policy/v1"]
    attempts: list[Callable[[], object]] = [
        lambda: rollout.append([*block("c"), *block("a")]),
        lambda: learner.take({ROLE: 1}, 0.0),
        lambda: rollout.stored_ids(["a/0", "z/0"]),
        lambda: learner.unreadable_ids(ROLE),
        learner.redeliver,
        lambda: used.extend(_use_a_block(learner)),
        learner.stats,
        rollout.stats,
        mirror.read,
        lambda: frozen_weights(member, elsewhere, mirror),
        lambda: mirror.publish(population.document(), population.path),
        mirror.read,
        lambda: frozen_weights(member, elsewhere, mirror),
        mirror.clear,
        lambda: command("buffer", "inspect", shared.run_dir),
        lambda: _read_as_the_drill_does(shared),
    ]
    for attempt in attempts:
        try:
            attempt()
        except EntenteError as error:
            print(error)
        except SystemExit:
            pass
    return used


def _use_a_block(learner: RedisBuffer) -> list[str]:
    delivery = learner.take({ROLE: 1}, 0.0)
    learner.acknowledge(delivery.receipts)
    return ids(delivery)


def what_is_left(shared: Shared) -> list[str]:
    """The ids of the episodes that a learner after a restart uses."""
    used: list[str] = []
    learner = RedisBuffer(shared.server.url, RUN, 600.0, 10.0)
    try:
        learner.redeliver()
        with suppress(BlocksMissingError):
            while True:
                used += _use_a_block(learner)
    finally:
        learner.close()
    return used


def _read_as_the_drill_does(shared: Shared) -> None:
    with ReplayClient(shared.server.url, RUN) as client, suppress(redis.ResponseError):
        client.stored(), client.waiting(), client.poison(), client.counters()


def works_again(shared: Shared) -> None:
    """Without the changed key, new blocks of the run go through."""
    with suppress(redis.ResponseError):
        shared.raw.delete(full("episodes:FRANCE"))  # what was in it may be lost with the key
    learner = RedisBuffer(shared.server.url, RUN, 600.0, 10.0)
    try:
        learner.append(block("new"))
        delivery = learner.take({ROLE: 1}, 5.0)
        assert [episode.episode_id for episode in delivery.episodes] == ["new/0", "new/1"], delivery
        learner.acknowledge(delivery.receipts)
    finally:
        learner.close()


@contextmanager
def prepare(folder: Path) -> Iterator[Shared]:
    run_dir = folder / "run"
    run_dir.mkdir()
    population = Population(run_dir / "population.json")
    save_file({"w": np.zeros(64, np.float32)}, run_dir / "v1.safetensors")
    with population.transaction():
        population.add_snapshot(run_dir / "v1.safetensors", version=1)
    with EmbeddedServer.start(folder / "redis") as server, redis.Redis.from_url(server.url) as raw:
        config = load_config("smoke", [f"redis.url={server.url}", "redis.answer_timeout_s=5"])
        (run_dir / "config.toml").write_text(dump_config(config))
        (run_dir / "run_id").write_text(f"{RUN}\n")
        (run_dir / "format").write_text("2\n")
        yield Shared(server, raw, run_dir, population)


KIND = Kind("server keys", cases, run, prepare, quick=10)
