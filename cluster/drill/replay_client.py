"""The drill's client of the replay server: it causes faults, and reads the stored episodes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

import redis

from services.replay.buffer import block_of
from services.replay.codec import SCHEMA_AT, SCHEMA_VERSION, encode
from services.replay.redis_store.lua_scripts import APPEND
from services.replay.redis_store.replies import count_of, name_of
from services.replay.synthetic_episodes import synthetic_episode

GROUP = "learner"  # the consumer group of the run's learner
ANSWER_TIMEOUT_S = 60.0  # an entry of 100 MB takes seconds

# KEYS: stream. ARGV: group, then entry id and new data of each entry. Replaces the data of unread entries; returns
# whether it could, for all of them or none.
_DAMAGE = """#!lua
local found = {}
for at = 2, #ARGV, 2 do
    if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[at], ARGV[at], 1) > 0 then return 0 end
    local entry = redis.call('XRANGE', KEYS[1], ARGV[at], ARGV[at])
    if #entry == 0 then return 0 end
    found[at] = entry[1][2]
end
for at = 2, #ARGV, 2 do
    redis.call('XDEL', KEYS[1], ARGV[at])
    for i = 1, #found[at], 2 do if found[at][i] == 'episode' then found[at][i + 1] = ARGV[at + 1] end end
    redis.call('XADD', KEYS[1], '*', unpack(found[at]))
end
return 1
"""
_NOT_UTF8 = b"\xff\xfe\x1b[31m"

Entry = tuple[bytes, dict[bytes, bytes]]  # of a stream: its id and fields


class ReplayClient:
    """One run's keys on the server at ``url``; a context manager."""

    def __init__(self, url: str, run_id: str) -> None:
        self._client: Any = redis.Redis.from_url(url, socket_timeout=ANSWER_TIMEOUT_S)
        self._prefix = f"entente:{run_id}:"

    def __enter__(self) -> ReplayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def damage_episode(self, rng: random.Random) -> list[str]:
        """Damage a random stored episode that the learner has not read; returns its id, or nothing if there is none."""
        for role in rng.sample(self._roles(), len(self._roles())):
            entries = self._entries(role)
            for entry in rng.sample(entries, len(entries)):
                if self._damage(role, [entry], rng):
                    return [_name(entry)]
        return []

    def damage_block(self, rng: random.Random, size: int) -> list[str]:
        """Damage all ``size`` episodes of a random stored block of which the learner has read none.

        Returns their ids, or nothing if there is no such block.
        """
        for role in rng.sample(self._roles(), len(self._roles())):
            blocks: dict[str, list[Entry]] = {}
            for entry in self._entries(role):
                blocks.setdefault(block_of(_name(entry)), []).append(entry)
            whole = [entries for entries in blocks.values() if len(entries) == size]
            for entries in rng.sample(whole, len(whole)):
                if self._damage(role, entries, rng):
                    return [_name(entry) for entry in entries]
        return []

    def append_later_version(self, rng: random.Random) -> str:
        """Append an episode as a rollout worker of a later version would; returns its id."""
        role, name = rng.choice(self._roles()), f"future-{rng.getrandbits(32):08x}"
        data = bytearray(encode(synthetic_episode(name, 0, role=role, block_size=1, turns=2)))
        data[SCHEMA_AT] = SCHEMA_VERSION + 1
        return self._append(role, f"{name}/0", bytes(data))

    def append_oversized(self, rng: random.Random, size: int) -> str:
        """Append an episode of ``size`` bytes; returns its id."""
        return self._append(rng.choice(self._roles()), f"oversized-{rng.getrandbits(32):08x}/0", bytes(size))

    def write_foreign_values(self, rng: random.Random) -> str:
        """Write a lock, a role, a mirrored policy and an entry that are not UTF-8; returns the entry's id as shown."""
        name = _NOT_UTF8 + b"%08x" % rng.getrandbits(32)
        self._client.sadd(self._key("roles"), name)
        self._client.hset(self._key("population:weights"), name, name)
        self._client.set(self._key("learner"), name)
        self._client.xadd(self._stream(rng.choice(self._roles())), {"id": name, "episode": name})
        return shown(name)

    def limit_memory(self, size: int) -> None:
        """Set ``maxmemory`` in bytes; 0: no limit."""
        self._client.config_set("maxmemory", size)

    def refusals(self) -> int:
        """Commands refused for full memory since the server started."""
        return int(self._client.info("errorstats").get("errorstat_OOM", {}).get("count", 0))

    def counters(self) -> dict[str, int]:
        """The server's counters of acknowledged, duplicate and poison episodes that are not 0."""
        names, key = ("acknowledged", "duplicates", "poison"), self._key("counters")
        found = {
            name: count_of(reply, name, key) for name, reply in zip(names, self._client.hmget(key, names), strict=True)
        }
        return {name: count for name, count in found.items() if count}

    def stored(self) -> frozenset[str]:
        """Ids of all episodes that were ever stored."""
        return frozenset(shown(name) for name in self._client.hkeys(self._key("seen")))

    def waiting(self) -> dict[str, bytes]:
        """The data of episodes not read yet, or not acknowledged, by id."""
        return {_name(entry): entry[1].get(b"episode", b"") for role in self._roles() for entry in self._entries(role)}

    def poison(self) -> list[str]:
        """Ids of unreadable entries that were set aside."""
        return [_name(entry) for entry in self._client.xrange(self._key("poison"))]

    def has_roles(self) -> bool:
        """Whether any episode was stored here."""
        return bool(self._roles())

    def _entries(self, role: str) -> list[Entry]:
        entries: list[Entry] = self._client.xrange(self._stream(role))
        return entries

    def _damage(self, role: str, entries: Sequence[Entry], rng: random.Random) -> bool:
        arguments: list[str | bytes] = [GROUP]
        for entry, fields in entries:
            data = bytearray(fields[b"episode"])
            data[rng.randrange(SCHEMA_AT + 1, len(data))] ^= 0xFF
            arguments += [entry, bytes(data)]
        return bool(self._client.register_script(_DAMAGE)(keys=[self._stream(role)], args=arguments))

    def _append(self, role: str, name: str, data: bytes) -> str:
        keys = [self._key("seen"), self._key("roles"), self._key("counters"), self._stream(role)]
        self._client.register_script(APPEND)(keys=keys, args=[uuid.uuid4().hex, GROUP, role, name, data])
        return name

    def _roles(self) -> list[str]:
        return sorted(filter(None, map(name_of, self._client.smembers(self._key("roles")))))

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _stream(self, role: str) -> str:
        return self._key(f"episodes:{role}")


def shown(name: bytes) -> str:
    """A name on the server as text, also if it is not UTF-8."""
    return name.decode(errors="backslashreplace")


def _name(entry: Entry) -> str:
    return shown(entry[1].get(b"id", b""))
