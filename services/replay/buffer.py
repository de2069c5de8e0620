"""The replay protocol and its in-memory twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grpo_core.types import Episode


@dataclass(frozen=True, slots=True)
class Receipt:
    """Names one stored episode until it is acknowledged; plain strings, so that a checkpoint can hold it."""

    role: str
    entry_id: str


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Whole blocks (or what group_timeout left of them), with a receipt for every episode, in the same order."""

    episodes: tuple[Episode, ...]
    receipts: tuple[Receipt, ...]


class ReplayError(RuntimeError):
    """The buffer cannot be reached or does not answer in time; the message says what was awaited."""


class ReplayBuffer(Protocol):
    """Episodes in, whole blocks out, oldest first; each used exactly once.

    An episode is *stored* by append, *delivered* by take, and *acknowledged* (forgotten) when the checkpoint that
    used it is durable. A learner that comes back gets what was delivered but not acknowledged again.
    """

    def append(self, episodes: Sequence[Episode]) -> int:
        """Store episodes; one whose ``episode_id`` was ever stored in this run is dropped. Returns how many were new."""
        ...

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """The oldest ``blocks[role]`` blocks of each role, complete or older than the group timeout.

        Age is the order in which a block's first episode arrived.

        Raises:
            ReplayError: not there within ``timeout_s``; says which roles lack how many blocks. Nothing is lost.
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

    def stats(self) -> Mapping[str, float]:
        """waiting, delivered (unacknowledged), acknowledged, duplicates, poison, bytes; and waiting per role as ``waiting/FRANCE``."""
        ...

    def close(self) -> None:
        """Drop the connection; stored episodes stay."""
        ...
