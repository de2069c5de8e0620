"""What a server answers, as far as others may have written it: names, numbers, and the holder of a learner's lock."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from grpo_core.errors import one_line
from services.replay.buffer import ReplayError

NAME_LENGTH = 200  # characters of the longest name of a role or episode that is taken for one
MOST_NAMES = 10_000  # of a set that are read: a run has a few roles, and few episodes that it cannot read
_SCANNED = 1_000  # by one command
_log = logging.getLogger(__name__)


class LockHolder(msgspec.Struct, frozen=True):
    """The learner that a lock names; one of a later version may say more about itself, and is alive all the same."""

    host: str
    machine: str  # the scope of its process id
    pid: int
    started: float  # unix seconds
    token: str


def name_of(reply: bytes) -> str | None:
    """Return a role or episode id as text; None if it is not printable UTF-8 of at most ``NAME_LENGTH`` characters."""
    try:
        name = reply.decode()
    except UnicodeDecodeError:
        return None
    return name if name.isprintable() and 0 < len(name) <= NAME_LENGTH else None


class NameSets:
    """Reads a server's sets of names, to which others may have written: ``MOST_NAMES`` of each at most.

    What is left out of a set is said once.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._warned: set[str] = set()

    def read(self, key: str) -> list[str]:
        """Return the names in a set, sorted; without what no run writes."""
        members: set[bytes] = set()
        cursor, begun = 0, False
        while (cursor or not begun) and len(members) < MOST_NAMES:
            cursor, found = self._client.sscan(key, cursor, count=_SCANNED)
            members.update(found)
            begun = True
        names = sorted(name for member in members if (name := name_of(member)) is not None)
        left_out = len(members) - len(names)
        if key not in self._warned and (left_out or cursor):
            self._warned.add(key)
            more = f"; more than {MOST_NAMES:,} members are not read" if cursor else ""
            _log.warning("%s has %d members that are no names and are left out%s", key, left_out, more)
        return names


def count_of(reply: bytes | None, name: str, key: str) -> int:
    """Return a counter, 0 if it is missing; ``ReplayError`` if it is not a number."""
    try:
        return int(reply or 0)
    except ValueError:
        raise ReplayError(
            f"the replay server's {key} has {one_line(repr(reply), 60)} as {name}, which is no number: something else "
            f"wrote it; remove it by HDEL {key} {name}, and it counts from 0"
        ) from None


def unacknowledged(client: Any, stream: str, group: str) -> int:
    """Count the entries that a learner has read and not acknowledged; none where no consumer group is."""
    try:
        return int(client.xpending(stream, group)["pending"])
    except ResponseError as error:
        if not str(error).startswith("NOGROUP"):
            raise
        return 0  # a role that is none, or one that no learner has opened yet


def holder_of(reply: bytes) -> LockHolder | None:
    """Return the learner that a lock's value names; None for a value that no learner wrote."""
    try:
        holder = msgspec.json.decode(reply, type=LockHolder)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return holder if 0 < holder.pid < 1 << 31 else None
