"""The run's replay server as a saboteur sees it, and its content as an auditor does."""

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
ANSWER_S = 10.0

# KEYS: stream. ARGV: group, entry id, data. Puts data in the place of an entry that nobody has read; whether it could.
_SPOIL = """#!lua
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) > 0 then return 0 end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])
if #entry == 0 then return 0 end
local fields = entry[1][2]
redis.call('XDEL', KEYS[1], ARGV[2])
for i = 1, #fields, 2 do if fields[i] == 'episode' then fields[i + 1] = ARGV[3] end end
redis.call('XADD', KEYS[1], '*', unpack(fields))
return 1
"""


class Store:
    """One run's keys on the server at ``url``; a context manager."""

    def __init__(self, url: str, run_id: str) -> None:
        self._client: Any = redis.Redis.from_url(url, socket_timeout=ANSWER_S)
        self._prefix = f"entente:{run_id}:"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def spoil(self, rng: random.Random, spared: set[str]) -> str | None:
        """Damage a stored episode that the learner has not read yet; its id, or None where there is none.

        Args:
            rng: chooses it.
            spared: blocks that are left alone: of one that loses all its episodes the last update makes sure for long.
        """
        for role in rng.sample(self._roles(), len(self._roles())):
            entries = self._client.xrange(self._stream(role))
            for entry, fields in rng.sample(entries, len(entries)):
                name: str = fields[b"id"].decode()
                if block_of(name) in spared:
                    continue
                data = bytearray(fields[b"episode"])
                data[rng.randrange(SCHEMA_AT + 1, len(data))] ^= 0xFF
                spoil = self._client.register_script(_SPOIL)
                if spoil(keys=[self._stream(role)], args=[GROUP, entry, bytes(data)]):
                    return name
        return None

    def deliver_from_the_future(self, rng: random.Random) -> str:
        """What a rollout worker of a later version would append; its id."""
        role, name = rng.choice(POWERS), f"future-{rng.getrandbits(32):08x}"
        episode = synthetic_episode(name, 0, role=role, block_size=1, turns=2)
        data = bytearray(encode(episode))
        data[SCHEMA_AT] = SCHEMA_VERSION + 1
        keys = [self._key("seen"), self._key("roles"), self._key("counters"), self._stream(role)]
        append = self._client.register_script(APPEND)
        append(keys=keys, args=[uuid.uuid4().hex, GROUP, role, episode.episode_id, bytes(data)])
        return episode.episode_id

    def limit_memory(self, size: int) -> None:
        """``maxmemory`` in bytes; 0: none."""
        self._client.config_set("maxmemory", size)

    def refusals(self) -> int:
        """Commands that were refused because memory was full, since the server started."""
        return int(self._client.info("errorstats").get("errorstat_OOM", {}).get("count", 0))

    def counters(self) -> dict[str, int]:
        """Episodes acknowledged, duplicates, poison; those that are not 0."""
        return {name.decode(): int(value) for name, value in self._client.hgetall(self._key("counters")).items()}

    def stored(self) -> frozenset[str]:
        """Ids of all episodes that were ever stored."""
        return frozenset(name.decode() for name in self._client.hkeys(self._key("seen")))

    def waiting(self) -> frozenset[str]:
        """Ids of episodes that are still here: not read, or not acknowledged."""
        return frozenset(
            fields[b"id"].decode() for role in self._roles() for _, fields in self._client.xrange(self._stream(role))
        )

    def poison(self) -> list[str]:
        """Ids of what was set aside because it could not be read."""
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
