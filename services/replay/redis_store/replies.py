"""What a server answers, as far as others may have written it: names, numbers, and the holder of a learner's lock."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from grpo_core.errors import one_line
from services.replay.buffer import ReplayError

NAME_LENGTH = 200  # characters of the longest name of a role or episode that is taken for one
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


def names_of(replies: Iterable[bytes], key: str) -> list[str]:
    """Return the names in a set of them, sorted; others, which no run writes, are left out with a warning."""
    names = []
    for reply in replies:
        name = name_of(reply)
        if name is None:
            _log.warning("%s holds %s, which is no name and is left out", key, one_line(reply, 100))
        else:
            names.append(name)
    return sorted(names)


def count_of(reply: bytes | None, name: str, key: str) -> int:
    """Return a counter, 0 if it is missing; ``ReplayError`` if it is not a number."""
    try:
        return int(reply or 0)
    except ValueError:
        raise ReplayError(
            f"the replay server's {key} has {one_line(repr(reply), 60)} as {name}, which is no number: something else "
            f"wrote it; remove it by HDEL {key} {name}, and it counts from 0"
        ) from None


def holder_of(reply: bytes) -> LockHolder | None:
    """Return the learner that a lock's value names; None for a value that no learner wrote."""
    try:
        holder = msgspec.json.decode(reply, type=LockHolder)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return holder if 0 < holder.pid < 1 << 31 else None
