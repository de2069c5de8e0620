"""The replay buffer on a Redis server: one stream per role, one consumer group, no episode lost or used twice.

Rollout workers only append and query ids; one learner takes and acknowledges. The keys, all under
``entente:<run>:``, are ``episodes:<ROLE>`` (streams), ``roles``, ``seen`` (episode ids ever stored), ``counters``,
``poison`` (undecodable episodes, bounded), ``unreadable:<ROLE>`` (their ids, unbounded) and ``learner`` (the lock).
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from grpo_core.types import Episode
from services.replay.buffer import Delivery, Receipt, ReplayError
from services.replay.codec import CodecError, decode, encode
from services.replay.pending_blocks import PendingBlocks
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.learner_lock import LearnerLock
from services.replay.redis_store.lua_scripts import ACKNOWLEDGE, APPEND, CLAIM, OPEN, POISON, READ

POISON_KEPT = 100

_APPEND_BYTES = 8 << 20  # per script call, which blocks the server while it runs
_READ_ENTRIES = 64  # per stream and call
_ACKNOWLEDGE_ENTRIES = 500
_IDS_PER_QUERY = 10_000
_SHORTEST_POLL_S = 0.01
_LONGEST_POLL_S = 0.2
_log = logging.getLogger(__name__)


class RedisBuffer:
    """A ``ReplayBuffer`` on a server, for any threads; its first learner's call takes the run's ``LearnerLock``."""

    def __init__(
        self,
        url: str,
        run_id: str,
        group_timeout_s: float,
        connect_timeout_s: float,
        consumer: str = "learner",
        answer_timeout_s: float | None = None,
    ) -> None:
        """Connect. ``consumer`` names the consumer group; the time limits are those of ``Connection``.

        Raises ``ReplayError`` if the server does not answer in time or is unsuitable, ``ValueError`` for a ``run_id``
        with other characters than letters, digits, dots, dashes and underscores.
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", run_id):
            raise ValueError(f"run id {run_id!r}: only letters, digits, '.', '-' and '_' are allowed")
        self._prefix = f"entente:{run_id}:"
        self._group = consumer
        self._connection = Connection(url, connect_timeout_s, answer_timeout_s)
        self._connection.check_server()
        client = self._connection.client
        self._append, self._open, self._read, self._claim, self._acknowledge, self._poison = map(
            client.register_script, (APPEND, OPEN, READ, CLAIM, ACKNOWLEDGE, POISON)
        )
        self._lock = LearnerLock(self._connection, self._key("learner"), run_id)
        # The learner's side; guarded by _mutex.
        self._mutex = threading.RLock()
        self._is_learner = False
        self._opened: set[str] = set()
        self._pending = PendingBlocks(group_timeout_s)
        self._delivered: set[Receipt] = set()
        self._unsure = True  # whether a lost reply may have held entries

    def append(self, episodes: Sequence[Episode]) -> int:
        """See ``ReplayBuffer.append``."""
        entries = [(episode.role, episode.episode_id, encode(episode)) for episode in episodes]
        new = 0
        for chunk in _chunks_by_bytes(entries):
            keys = [self._key("seen"), self._key("roles"), self._key("counters")]
            keys += [self._stream(role) for role, _, _ in chunk]
            arguments = [uuid.uuid4().hex, self._group, *(part for entry in chunk for part in entry)]
            new += self._connection.call("append episodes", partial(self._append, keys=keys, args=arguments))
        return new

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """See ``ReplayBuffer.take``; a first call may wait for the lock, for up to ``LOCK_TTL_S`` longer."""
        deadline_s = time.monotonic() + timeout_s
        pause_s = _SHORTEST_POLL_S
        while True:
            with self._mutex:
                now_s = self._read_new(sorted(blocks))
                missing = self._pending.missing(blocks, now_s)
                if not missing:
                    delivery = self._pending.take(blocks, now_s)
                    self._delivered.update(delivery.receipts)
                    return delivery
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise self._pending.missing_error(missing, timeout_s)
            # Short sleeps and no blocking read, because the read must check the lock in the same step.
            time.sleep(min(left_s, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """See ``ReplayBuffer.acknowledge``."""
        ids_by_role: dict[str, list[str]] = {}
        for receipt in receipts:
            ids_by_role.setdefault(receipt.role, []).append(receipt.entry_id)
        with self._mutex:
            for role, ids in ids_by_role.items():
                for start in range(0, len(ids), _ACKNOWLEDGE_ENTRIES):
                    chunk = ids[start : start + _ACKNOWLEDGE_ENTRIES]
                    keys = [self._stream(role), self._key("counters")]
                    self._call_as_learner("acknowledge episodes", self._acknowledge, keys, [self._group, *chunk])
            for receipt in receipts:
                self._delivered.discard(receipt)
                self._pending.discard(receipt)

    def redeliver(self) -> None:
        """See ``ReplayBuffer.redeliver``."""
        with self._mutex:
            self._pending.clear()
            self._delivered.clear()
            self._unsure = True
            self._call_as_learner("become the learner", self._open, [self._key("roles")], [self._group])
            self._connection.call("read what was not acknowledged", self._reread_if_unsure)

    def stored_ids(self, episode_ids: Sequence[str]) -> frozenset[str]:
        """See ``ReplayBuffer.stored_ids``."""
        found: set[str] = set()
        for start in range(0, len(episode_ids), _IDS_PER_QUERY):
            chunk = list(episode_ids[start : start + _IDS_PER_QUERY])
            ask = partial(self._connection.client.hmget, self._key("seen"), chunk)
            marks = self._connection.call("ask for ids", ask)
            found.update(episode_id for episode_id, mark in zip(chunk, marks, strict=True) if mark is not None)
        return frozenset(found)

    def unreadable_ids(self, role: str) -> frozenset[str]:
        """See ``ReplayBuffer.unreadable_ids``."""
        client: Any = self._connection.client
        ids = self._connection.call("ask for unreadable ids", lambda: client.smembers(self._unreadable(role)))
        return frozenset(episode_id.decode(errors="replace") for episode_id in ids)

    def stats(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.stats``; ``bytes`` is the server's estimate.

        Outside the learner's process, episodes that it has read but not delivered yet count as delivered.
        """
        with self._mutex:
            delivered = set(self._delivered) if self._is_learner else None
        return self._connection.call("ask for statistics", lambda: self._count(delivered))

    def memory(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.memory``."""
        return self._connection.memory()

    def close(self) -> None:
        """See ``ReplayBuffer.close``; a learner releases its lock."""
        with self._mutex:
            with suppress(ReplayError):  # without the server, the lock expires
                self._lock.release()
            self._connection.close()

    def _count(self, delivered: set[Receipt] | None) -> dict[str, float]:
        client: Any = self._connection.client  # its stubs allow text in replies; ours are bytes
        roles = sorted(role.decode() for role in client.smembers(self._key("roles")))
        counters = {name.decode(): int(value) for name, value in client.hgetall(self._key("counters")).items()}
        stats: dict[str, float] = {"waiting": 0, "delivered": 0, "bytes": 0}
        for role in roles:
            stream = self._stream(role)
            stored = client.xlen(stream)
            if delivered is None:
                out = int(client.xpending(stream, self._group)["pending"])
            else:
                out = sum(receipt.role == role for receipt in delivered)
            stats[f"waiting/{role}"] = stored - out
            stats["waiting"] += stored - out
            stats["delivered"] += out
            stats["bytes"] += client.memory_usage(stream) or 0
        return stats | {name: counters.get(name, 0) for name in ("acknowledged", "duplicates", "poison")}

    def _read_new(self, roles: Sequence[str]) -> float:
        """Read all new entries of these roles into the pending blocks; returns the server's time in seconds."""
        if new := [role for role in roles if role not in self._opened]:
            keys = [self._key("roles"), *(self._stream(role) for role in new)]
            self._call_as_learner("open streams", self._open, keys, [self._group, *new])
            self._opened.update(new)
        while True:
            now_s, entries = self._connection.call("read episodes", lambda: self._read_once(roles))
            if entries < _READ_ENTRIES:
                return now_s

    def _read_once(self, roles: Sequence[str]) -> tuple[float, int]:
        """Read once; returns the server's time and the largest number of entries of a stream."""
        self._reread_if_unsure()
        self._unsure = True  # until the reply is here, which may be lost
        arguments = [self._group, self._group, _READ_ENTRIES]
        names = [self._stream(role) for role in roles]
        _, seconds, microseconds, streams = self._run_as_learner(self._read, names, arguments)
        now_s = int(seconds) + int(microseconds) / 1e6
        longest = 0
        for name, entries in streams:
            role = name.decode().removeprefix(self._stream(""))
            longest = max(longest, len(entries))
            for entry in entries:
                self._add_entry(role, entry)
        self._unsure = False
        return now_s, longest

    def _reread_if_unsure(self) -> None:
        """If a reply may have been lost, read the unacknowledged entries again, oldest first."""
        if not self._unsure:
            return
        client: Any = self._connection.client
        for role in sorted(name.decode() for name in client.smembers(self._key("roles"))):
            cursor = b"0-0"
            while True:
                arguments = [self._group, self._group, cursor, _READ_ENTRIES]
                _, (cursor, entries, *_) = self._run_as_learner(self._claim, [self._stream(role)], arguments)
                for entry in entries:
                    self._add_entry(role, entry)
                if cursor == b"0-0":
                    break
        self._unsure = False

    def _add_entry(self, role: str, entry: Sequence[Any]) -> None:
        """Add a stream entry to the pending blocks, or to the poison stream if it cannot be decoded."""
        receipt = Receipt(role, entry[0].decode())
        if receipt in self._delivered or receipt in self._pending:
            return
        fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
        try:
            episode = decode(fields.get(b"episode", b""))
            if episode.role != role:
                raise CodecError(f"an episode of {episode.role} in the stream of {role}")
        except CodecError as error:
            _log.warning("episode %s of %s is set aside as poison: %s", receipt.entry_id, role, error)
            keys = [self._stream(role), self._key("counters"), self._key("poison"), self._unreadable(role)]
            kept = [fields.get(b"id", b""), str(error), fields.get(b"episode", b""), POISON_KEPT]
            self._run_as_learner(self._poison, keys, [self._group, receipt.entry_id, role, *kept])
            return
        self._pending.add(receipt, episode, arrived_s=int(receipt.entry_id.split("-")[0]) / 1e3)

    def _call_as_learner(self, what: str, script: Callable[..., Any], keys: list[str], arguments: list[Any]) -> Any:
        return self._connection.call(what, lambda: self._run_as_learner(script, keys, arguments))

    def _run_as_learner(self, script: Callable[..., Any], keys: list[str], arguments: list[Any]) -> Any:
        """Run a learner's script; take the lock first, or again when it expired without a new holder."""
        for _ in range(2):
            if not self._is_learner:
                self._lock.acquire()
                self._is_learner = True
            reply = script(keys=[self._lock.key, *keys], args=[self._lock.owner, *arguments])
            if reply[0] != b"held":
                return reply
            self._is_learner = False
            if reply[1]:
                raise self._lock.conflict(reply[1].decode())
        raise ReplayError("the learner's lock expires as soon as it is taken: is this process being suspended?")

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _stream(self, role: str) -> str:
        return self._key(f"episodes:{role}")

    def _unreadable(self, role: str) -> str:
        return self._key(f"unreadable:{role}")


def _chunks_by_bytes(entries: Sequence[tuple[str, str, bytes]]) -> Iterator[list[tuple[str, str, bytes]]]:
    chunk: list[tuple[str, str, bytes]] = []
    size = 0
    for entry in entries:
        if chunk and size + len(entry[2]) > _APPEND_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry[2])
    if chunk:
        yield chunk
