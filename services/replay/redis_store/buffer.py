"""The replay buffer on a Redis server: one stream per role, one consumer group, no episode lost or used twice.

Rollout workers only append and query ids; one learner takes and acknowledges. The keys, all under
``entente:<run>:``, are ``episodes:<ROLE>`` (streams), ``roles``, ``seen`` (episode ids ever stored), ``counters``,
``poison`` (undecodable episodes, bounded), ``unreadable:<ROLE>`` (their ids, unbounded) and ``learner`` (the lock).

Others may write to the server too: what it answers is checked, and an entry of more bytes than the limit is set aside
as poison without being sent.
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

from grpo_core.errors import one_line
from grpo_core.types import Episode
from services.replay.buffer import NAMELESS, BlocksMissingError, Delivery, Receipt, ReplayError
from services.replay.codec import CodecError, decode, encode
from services.replay.pending_blocks import PendingBlocks
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.learner_lock import LearnerLock
from services.replay.redis_store.lua_scripts import ACKNOWLEDGE, APPEND, CLAIM, OPEN, POISON, READ
from services.replay.redis_store.replies import NameSets, count_of, holder_of, name_of, unacknowledged

MIB = 1 << 20
MAX_ENTRY_BYTES = 64 * MIB
POISON_KEPT = 100  # entries
POISON_BYTES = 256 << 10  # of the data of each; a larger one is deleted

_APPEND_BYTES = 8 << 20  # per script call, which blocks the server while it runs
_READ_ENTRIES = 64  # per stream and call
_READ_BYTES = 32 * MIB  # per call, after which no further entry is read
_FIELD_BYTES = 1024  # of an entry besides its data, at most: an id of 200 characters takes up to 800
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
        away_timeout_s: float | None = None,
        *,
        patient: bool = False,
        max_entry_bytes: int = MAX_ENTRY_BYTES,
    ) -> None:
        """Connect. ``consumer`` names the consumer group; the time limits are those of ``Connection``.

        An episode of more than ``max_entry_bytes`` (``redis.max_episode_mib``) is neither stored nor read.

        Raises ``ReplayError`` if the server does not answer in time or is unsuitable, ``ValueError`` for a ``run_id``
        with other characters than letters, digits, dots, dashes and underscores.
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", run_id):
            raise ValueError(f"run id {run_id!r}: only letters, digits, '.', '-' and '_' are allowed")
        self._prefix = f"entente:{run_id}:"
        self._group = consumer
        self._max_entry_bytes = max_entry_bytes
        self._connection = Connection(url, connect_timeout_s, answer_timeout_s, away_timeout_s, patient=patient)
        self._connection.check_server()
        client = self._connection.client
        self._append, self._open, self._read, self._claim, self._acknowledge, self._poison = map(
            client.register_script, (APPEND, OPEN, READ, CLAIM, ACKNOWLEDGE, POISON)
        )
        self._name_sets = NameSets(client)
        self._lock = LearnerLock(self._connection, self._key("learner"), run_id)
        # The learner's side; guarded by _mutex.
        self._mutex = threading.RLock()
        self._is_learner = False
        self._opened: set[str] = set()
        self._pending = PendingBlocks(group_timeout_s)
        self._delivered: set[Receipt] = set()
        self._seen_s = 0.0  # the server's time when ``missing`` last asked
        self._unsure = True  # whether a lost reply may have held entries
        self._lock_lost = False  # whether another learner may have used what is pending since it was read

    def claim_place(self, place: str) -> None:
        """Note on the server which of a run's servers it is, such as ``2 of 3``; ReplayError if it is another one."""
        key, client = self._key("place"), self._connection.client

        def claim() -> Any:
            client.set(key, place, nx=True)
            return client.get(key)

        found: bytes | None = self._connection.call("note a server's place", claim)
        if found != place.encode():
            held = "no place" if found is None else repr(one_line(found.decode(errors="replace"), 40))
            raise ReplayError(
                f"{self._connection.shown_url} is named as server {place} of this run and has been server {held}: give "
                "redis.urls in the order in which the run began"
            )

    def append(self, episodes: Sequence[Episode]) -> int:
        """See ``ReplayBuffer.append``."""
        entries = [(episode.role, episode.episode_id, encode(episode)) for episode in episodes]
        for _, name, data in entries:
            if len(data) + _FIELD_BYTES > self._max_entry_bytes:
                raise ReplayError(f"episode {name} {self._too_large(len(data))}: raise that limit")
        new = 0
        for chunk in _chunks_by_bytes(entries):
            keys = [self._key("seen"), self._key("roles"), self._key("counters")]
            keys += [self._stream(role) for role, _, _ in chunk]
            arguments = [uuid.uuid4().hex, self._group, *(part for entry in chunk for part in entry)]
            new += self._connection.call("append episodes", partial(self._append, keys=keys, args=arguments))
        return new

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """See ``ReplayBuffer.take``; a first call may wait for the lock, for up to ``LOCK_TTL_S`` longer."""
        deadline_s = time.monotonic() + timeout_s - self._connection.away_s  # while the server is away, it stands still
        pause_s = _SHORTEST_POLL_S
        while True:
            with self._mutex:
                missing = self.missing(blocks)
                if not missing:
                    return self.take_ready(blocks)
                left_s = deadline_s + self._connection.away_s - time.monotonic()
                if left_s <= 0:
                    raise self._pending.missing_error(missing, timeout_s)
            # Short sleeps and no blocking read, because the read must check the lock in the same step.
            time.sleep(min(left_s, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def missing(self, blocks: Mapping[str, int]) -> dict[str, int]:
        """Read what is new, and count the requested blocks that are not ready, by role; raises as ``take`` does."""
        with self._mutex:
            self._seen_s = self._read_new(sorted(blocks))
            return self._pending.missing(blocks, self._seen_s)

    def take_ready(self, blocks: Mapping[str, int]) -> Delivery:
        """Take blocks of which the last ``missing`` missed none; asks the server nothing, so it cannot be away."""
        with self._mutex:
            delivery = self._pending.take(blocks, self._seen_s)
            self._delivered.update(delivery.receipts)
            return delivery

    def missing_error(self, blocks: Mapping[str, int], timeout_s: float) -> BlocksMissingError:
        """Make the error of a learner that waited ``timeout_s`` for these blocks in vain."""
        with self._mutex:
            return self._pending.missing_error(self.missing(blocks), timeout_s)

    @property
    def away_s(self) -> float:
        """Seconds that calls have waited for a server that could not be reached."""
        return self._connection.away_s

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

    def set_aside(self, receipt: Receipt, episode_id: str, reason: str) -> None:
        """See ``ReplayBuffer.set_aside``."""
        with self._mutex:
            facts = [episode_id, one_line(reason), 0, b""]
            self._connection.call("set episodes aside", lambda: self._poison_entry(receipt, episode_id, facts))
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
        ask = partial(self._name_sets.read, self._unreadable(role))
        return frozenset(self._connection.call("ask for unreadable ids", ask))

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

    def hurry(self) -> None:
        """See ``ReplayBuffer.hurry``."""
        self._connection.hurry()

    def close(self) -> None:
        """See ``ReplayBuffer.close``; a learner releases its lock."""
        self._connection.hurry()
        with self._mutex:
            with suppress(ReplayError):  # without the server, the lock expires
                self._lock.release()
            self._connection.close()

    def _count(self, delivered: set[Receipt] | None) -> dict[str, float]:
        client: Any = self._connection.client  # its stubs allow text in replies; ours are bytes
        names, key = ("acknowledged", "duplicates", "poison"), self._key("counters")
        roles = self._name_sets.read(self._key("roles"))
        counters = {
            name: count_of(reply, name, key) for name, reply in zip(names, client.hmget(key, names), strict=True)
        }
        stats: dict[str, float] = {"waiting": 0, "delivered": 0, "bytes": 0}
        for role in roles:
            stream = self._stream(role)
            stored = client.xlen(stream)
            out = (
                unacknowledged(client, stream, self._group)
                if delivered is None
                else sum(receipt.role == role for receipt in delivered)
            )
            stats[f"waiting/{role}"] = stored - out
            stats["waiting"] += stored - out
            stats["delivered"] += out
            stats["bytes"] += client.memory_usage(stream) or 0
        return stats | counters

    def _read_new(self, roles: Sequence[str]) -> float:
        """Read all new entries of these roles into the pending blocks; returns the server's time in seconds."""
        if new := [role for role in roles if role not in self._opened]:
            keys = [self._key("roles"), *(self._stream(role) for role in new)]
            self._call_as_learner("open streams", self._open, keys, [self._group, *new])
            self._opened.update(new)
            self._unsure = True  # the set of roles may have lacked them, if something else wrote to it
        while True:
            now_s, may_be_more = self._connection.call("read episodes", lambda: self._read_once(roles))
            if not may_be_more:
                return now_s

    def _read_once(self, roles: Sequence[str]) -> tuple[float, bool]:
        """Read once; returns the server's time, and whether there may be more to read."""
        self._reread_if_unsure()
        self._unsure = True  # until the reply is here, which may be lost
        names = [self._stream(role) for role in roles]
        _, seconds, microseconds, more, entries = self._run_as_learner(
            self._read, names, [self._group, self._group, *self._limits]
        )
        now_s = int(seconds) + int(microseconds) / 1e6
        if self._lock_lost:
            return now_s, True  # these are read again, after the older ones
        for entry in entries:
            self._add_entry(roles[entry[0]], entry)
        self._unsure = False
        return now_s, bool(more)

    def _reread_if_unsure(self) -> None:
        """If a reply or the lock may have been lost, read the unacknowledged entries again, oldest first."""
        while self._unsure:
            if self._lock_lost:
                self._pending.clear()
                self._lock_lost = False
            for role in sorted({*self._name_sets.read(self._key("roles")), *self._opened}):
                self._reread(role)
            self._unsure = self._lock_lost

    def _reread(self, role: str) -> None:
        for name in self._name_sets.read(self._unreadable(role)):
            self._pending.add_unreadable(role, name)
        cursor, begun = b"0-0", False
        while cursor != b"0-0" or not begun:
            arguments = [self._group, self._group, cursor, *self._limits]
            _, cursor, entries = self._run_as_learner(self._claim, [self._stream(role)], arguments)
            begun = True
            for entry in entries:
                self._add_entry(role, entry)

    def _add_entry(self, role: str, entry: Sequence[Any]) -> None:
        """Add an entry (``lua_scripts.READ``) to the pending blocks, or to the poison stream if it cannot be read."""
        _, entry_id, name, size, data = entry
        receipt = Receipt(role, entry_id.decode())
        if receipt in self._delivered or receipt in self._pending:
            return
        try:
            if size > self._max_entry_bytes:
                raise CodecError(self._too_large(size))
            episode = decode(data)
            if episode.role != role:
                raise CodecError(f"an episode of {episode.role} in the stream of {role}")
            if episode.episode_id != name_of(name):
                raise CodecError(f"episode {episode.episode_id} stored as another one")
        except CodecError as error:
            unreadable = name_of(name) or f"{NAMELESS}{receipt.entry_id}"
            kept = data if len(data) <= POISON_BYTES else b""
            self._poison_entry(receipt, unreadable, [name, one_line(error), size, kept])
            return
        self._pending.add(receipt, episode, arrived_s=int(receipt.entry_id.split("-")[0]) / 1e3)

    def _poison_entry(self, receipt: Receipt, unreadable: str, facts: list[Any]) -> None:
        """Move an entry to the poison stream; ``facts`` are its episode id, the reason, its bytes and its data."""
        role = receipt.role
        _log.warning("episode %s of %s is set aside as poison: %s", receipt.entry_id, role, facts[1])
        keys = [self._stream(role), self._key("counters"), self._key("poison"), self._unreadable(role)]
        arguments = [self._group, receipt.entry_id, unreadable, POISON_KEPT, role, *facts]
        self._run_as_learner(self._poison, keys, arguments)
        self._pending.add_unreadable(role, unreadable)

    @property
    def _limits(self) -> list[int]:
        return [_READ_ENTRIES, self._max_entry_bytes, _READ_BYTES]

    def _too_large(self, size: int) -> str:
        return f"takes {size / MIB:,.1f} MiB, over redis.max_episode_mib = {self._max_entry_bytes / MIB:g}"

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
            self._lock_lost = self._unsure = True
            holder = holder_of(reply[1])  # None: the lock has expired, or something else wrote it
            if holder is not None:
                raise self._lock.conflict(holder)
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
