"""The drill's client of the replay server: it causes faults, and reads the stored episodes."""

from __future__ import annotations

import random
import uuid
from typing import Any

import redis

from services.environments.diplomacy.position import POWERS
from services.replay.codec import SCHEMA_AT, SCHEMA_VERSION, encode
from services.replay.redis_store.lua_scripts import APPEND
from services.replay.synthetic_episodes import synthetic_episode

GROUP = "learner"  # the consumer group of the run's learner
ANSWER_TIMEOUT_S = 10.0

# KEYS: stream. ARGV: group, entry id, data. Replaces the data of an unread entry; returns whether it could.
_DAMAGE = """#!lua
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) > 0 then return 0 end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])
if #entry == 0 then return 0 end
local fields = entry[1][2]
redis.call('XDEL', KEYS[1], ARGV[2])
for i = 1, #fields, 2 do if fields[i] == 'episode' then fields[i + 1] = ARGV[3] end end
redis.call('XADD', KEYS[1], '*', unpack(fields))
return 1
"""


class ReplayClient:
    """One run's keys on the server at ``url``; a context manager."""

    def __init__(self, url: str, run_id: str) -> None:
        self._client: Any = redis.Redis.from_url(url, socket_timeout=ANSWER_TIMEOUT_S)
        self._prefix = f"entente:{run_id}:"

    def __enter__(self) -> ReplayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def damage(self, rng: random.Random, spared: set[str]) -> str | None:
        """Damage a random stored episode that the learner has not read; returns its id, or None if there is none.

        Blocks in ``spared`` are skipped: a block that loses all its episodes delays the last update for long.
        """
        for role in rng.sample(self._roles(), len(self._roles())):
            entries = self._client.xrange(self._stream(role))
            for entry, fields in rng.sample(entries, len(entries)):
                name: str = fields[b"id"].decode()
                if block_of(name) in spared:
                    continue
                data = bytearray(fields[b"episode"])
                data[rng.randrange(SCHEMA_AT + 1, len(data))] ^= 0xFF
                damage = self._client.register_script(_DAMAGE)
                if damage(keys=[self._stream(role)], args=[GROUP, entry, bytes(data)]):
                    return name
        return None

    def append_later_version(self, rng: random.Random) -> str:
        """Append an episode as a rollout worker of a later version would; returns its id."""
        role, name = rng.choice(POWERS), f"future-{rng.getrandbits(32):08x}"
        episode = synthetic_episode(name, 0, role=role, block_size=1, turns=2)
        data = bytearray(encode(episode))
        data[SCHEMA_AT] = SCHEMA_VERSION + 1
        keys = [self._key("seen"), self._key("roles"), self._key("counters"), self._stream(role)]
        append = self._client.register_script(APPEND)
        append(keys=keys, args=[uuid.uuid4().hex, GROUP, role, episode.episode_id, bytes(data)])
        return episode.episode_id

    def limit_memory(self, size: int) -> None:
        """Set ``maxmemory`` in bytes; 0: no limit."""
        self._client.config_set("maxmemory", size)

    def refusals(self) -> int:
        """Commands refused for full memory since the server started."""
        return int(self._client.info("errorstats").get("errorstat_OOM", {}).get("count", 0))

    def counters(self) -> dict[str, int]:
        """The server's counters of acknowledged, duplicate and poison episodes that are not 0."""
        return {name.decode(): int(value) for name, value in self._client.hgetall(self._key("counters")).items()}

    def stored(self) -> frozenset[str]:
        """Ids of all episodes that were ever stored."""
        return frozenset(name.decode() for name in self._client.hkeys(self._key("seen")))

    def waiting(self) -> frozenset[str]:
        """Ids of episodes not read yet, or not acknowledged."""
        return frozenset(
            fields[b"id"].decode() for role in self._roles() for _, fields in self._client.xrange(self._stream(role))
        )

    def poison(self) -> list[str]:
        """Ids of unreadable entries that were set aside."""
        return [fields[b"id"].decode() for _, fields in self._client.xrange(self._key("poison"))]

    def _roles(self) -> list[str]:
        return sorted(role.decode() for role in self._client.smembers(self._key("roles")))

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _stream(self, role: str) -> str:
        return self._key(f"episodes:{role}")


def block_of(episode_id: str) -> str:
    """The line-up block of an episode."""
    return episode_id.rpartition("/")[0]
