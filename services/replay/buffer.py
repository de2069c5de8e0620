"""The replay protocol; ``MemoryBuffer`` and ``RedisBuffer`` keep it alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grpo_core.errors import EntenteError
from grpo_core.types import Episode


@dataclass(frozen=True, slots=True)
class Receipt:
    """Names one stored episode until it is acknowledged; plain strings, so that a checkpoint can hold it."""

    role: str
    entry_id: str


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Whole blocks (or what the group timeout left of them); ``receipts[i]`` names ``episodes[i]``."""

    episodes: tuple[Episode, ...]
    receipts: tuple[Receipt, ...]


class ReplayError(EntenteError, RuntimeError):
    """The buffer cannot be reached or does not answer in time; the message says what was awaited."""


class ServerLostError(ReplayError):
    """The server died, was stopped, is cut off or has been full for all of the time limit; episodes are not lost."""


class BlocksMissingError(ReplayError):
    """The blocks asked for did not arrive in time; asking again later is fine."""

    def __init__(self, message: str, missing: Mapping[str, int] | None = None) -> None:
        """Say how many blocks of each role are lacking."""
        super().__init__(message)
        self.missing = dict(missing or {})


class ReplayBuffer(Protocol):
    """Episodes in, whole blocks out, oldest first; each used exactly once.

    An episode is *stored* by append, *delivered* by take, and *acknowledged* (forgotten) when the checkpoint
    that used it is durable. A learner that comes back gets what was delivered but not acknowledged again.
    """

    def append(self, episodes: Sequence[Episode]) -> int:
        """Store episodes, and say how many were new.

        An episode whose ``episode_id`` was ever stored in this run is dropped (and counted as a duplicate).

        Raises:
            CodecError: an episode breaks the vocabulary's rules; nothing of this call is stored.
            ReplayError: the buffer cannot be reached or is full; appending the same episodes again is safe.
        """
        ...

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """The oldest ``blocks[role]`` blocks of each role, complete or older than the group timeout.

        Age is the order in which a block's first episode arrived.

        Raises:
            BlocksMissingError: not there within ``timeout_s``; says which roles lack how many. None is lost.
            ReplayError: the buffer cannot be reached, or another learner takes from this run.
        """
        ...

    def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """Forget episodes for good; receipts that are already gone are ignored."""
        ...

    def redeliver(self) -> None:
        """After a restart: what was delivered but not acknowledged is delivered again, oldest first."""
        ...

    def stored_ids(self, episode_ids: Sequence[str]) -> frozenset[str]:
        """Which of these were ever stored (waiting, delivered or acknowledged)."""
        ...

    def unreadable_ids(self, role: str) -> frozenset[str]:
        """Ids of this role's stored episodes that could not be decoded and were set aside as poison.

        Raises:
            ReplayError: the buffer cannot be reached.
        """
        ...

    def stats(self) -> Mapping[str, float]:
        """Counts of episodes: waiting, delivered (unacknowledged), acknowledged, duplicates, poison.

        ``waiting/FRANCE`` is what waits of one role; ``bytes`` the store they take.
        """
        ...

    def memory(self) -> Mapping[str, float]:
        """Bytes of the server: ``used``, and ``limit`` where it is told one; empty where nothing is known of it.

        Raises:
            ReplayError: the buffer cannot be reached.
        """
        ...

    def close(self) -> None:
        """Drop the connection; stored episodes stay."""
        ...
