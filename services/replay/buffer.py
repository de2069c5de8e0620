"""The replay protocol, which ``MemoryBuffer`` and ``RedisBuffer`` implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grpo_core.errors import EntenteError
from grpo_core.types import Episode

NAMELESS = "?"  # the beginning of the names of unreadable episodes without an id


def block_of(episode_id: str) -> str:
    """Return the line-up block of an episode."""
    return episode_id.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Identifies a stored episode until it is acknowledged; checkpoints hold it."""

    role: str
    entry_id: str


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Complete blocks, or incomplete ones after the group timeout; ``receipts[i]`` identifies ``episodes[i]``."""

    episodes: tuple[Episode, ...]
    receipts: tuple[Receipt, ...]


class ReplayError(EntenteError, RuntimeError):
    """The buffer cannot be reached or does not answer in time; the message names the operation."""


class ServerLostError(ReplayError):
    """The server was stopped, unreachable or full for the whole time limit; no episode is lost."""


class BlocksMissingError(ReplayError):
    """The requested blocks did not arrive in time; a later request may succeed."""

    def __init__(self, message: str, missing: Mapping[str, int] | None = None) -> None:
        """Set the message; ``missing`` counts the missing blocks of each role."""
        super().__init__(message)
        self.missing = dict(missing or {})


class UnreadableError(BlocksMissingError):
    """None of the requested blocks can be read: all were set aside as poison."""


class ReplayBuffer(Protocol):
    """Takes episodes and delivers whole blocks, oldest first; each is used exactly once.

    ``append`` stores an episode, ``take`` delivers it, and ``acknowledge`` deletes it when the checkpoint that used it
    is durable. After a restart, a learner gets the delivered but unacknowledged episodes again. All methods raise
    ``ReplayError`` if the buffer cannot be reached.
    """

    def append(self, episodes: Sequence[Episode]) -> int:
        """Store episodes and return how many were new.

        An episode whose ``episode_id`` was stored before in this run is dropped and counted as a duplicate. Raises
        ``CodecError``, and stores none, if an episode breaks a rule of its types, and ``ReplayError`` if the buffer
        cannot be reached or is full; appending the same episodes again is safe.
        """

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """Return the oldest ``blocks[role]`` blocks of each role, complete or older than the group timeout.

        Age is the order of arrival of a block's first episode. Raises ``BlocksMissingError`` if they did not arrive
        within ``timeout_s`` (none is lost), ``ReplayError`` if another learner takes from this run.
        """

    def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """Delete episodes; unknown receipts are ignored."""

    def set_aside(self, receipt: Receipt, episode_id: str, reason: str) -> None:
        """Delete a delivered episode that the learner cannot use, and count it as poison; an unknown one is ignored."""

    def redeliver(self) -> None:
        """Deliver the unacknowledged episodes again, oldest first; for a learner after a restart."""

    def stored_ids(self, episode_ids: Sequence[str]) -> frozenset[str]:
        """Return those of these ids that were stored before (waiting, delivered or acknowledged)."""

    def unreadable_ids(self, role: str) -> frozenset[str]:
        """Return the ids of this role's stored episodes that could not be read or used and were set aside as poison.

        One whose id could not be read either has a name of its own that begins with ``NAMELESS``.
        """

    def stats(self) -> Mapping[str, float]:
        """Count episodes: waiting, delivered (unacknowledged), acknowledged, duplicates, poison.

        ``waiting/FRANCE`` counts the waiting ones of a role; ``bytes`` is the size of all stored ones.
        """

    def memory(self) -> Mapping[str, float]:
        """Return the server's bytes: ``used``, and ``limit`` where it has one; empty where they are unknown."""

    def hurry(self) -> None:
        """From now on, do not wait for a server that does not answer: raise ``ServerLostError`` at once instead."""

    def close(self) -> None:
        """Close the connection; stored episodes stay."""
