"""The replay buffer of one process, with the codec and block rules of ``RedisBuffer``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from grpo_core.types import Episode
from services.replay.buffer import Delivery, Receipt
from services.replay.codec import decode, encode
from services.replay.pending_blocks import PendingBlocks


class MemoryBuffer:
    """A ``ReplayBuffer`` in this process's memory, encoded as in Redis; threads may share it."""

    def __init__(self, group_timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._stored: dict[Receipt, tuple[bytes, float]] = {}  # waiting and delivered, oldest first; with arrival times
        self._pending = PendingBlocks(group_timeout_s)
        self._ever_stored: set[str] = set()
        self._set_aside: dict[str, set[str]] = {}  # role -> episode ids
        self._counts = dict.fromkeys(("acknowledged", "duplicates", "poison"), 0)

    def append(self, episodes: Sequence[Episode]) -> int:
        """See ``ReplayBuffer.append``."""
        encoded = [(episode, encode(episode)) for episode in episodes]
        new = 0
        with self._changed:
            for episode, data in encoded:
                if episode.episode_id in self._ever_stored:
                    self._counts["duplicates"] += 1
                    continue
                self._ever_stored.add(episode.episode_id)
                receipt = Receipt(episode.role, str(len(self._ever_stored)))
                arrived_s = self._clock()
                self._stored[receipt] = (data, arrived_s)
                self._pending.add(receipt, decode(data), arrived_s)
                new += 1
            self._changed.notify_all()
        return new

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """See ``ReplayBuffer.take``."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while missing := self._pending.missing(blocks, self._clock()):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise self._pending.missing_error(missing, timeout_s)
                self._changed.wait(min(left_s, 0.1))  # a block may reach the group timeout without a new episode
            return self._pending.take(blocks, self._clock())

    def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """See ``ReplayBuffer.acknowledge``."""
        with self._changed:
            for receipt in receipts:
                if self._stored.pop(receipt, None) is not None:
                    self._counts["acknowledged"] += 1
                    self._pending.discard(receipt)

    def set_aside(self, receipt: Receipt, episode_id: str, reason: str) -> None:  # noqa: ARG002  (the protocol has it)
        """See ``ReplayBuffer.set_aside``."""
        with self._changed:
            if self._stored.pop(receipt, None) is not None:
                self._counts["poison"] += 1
                self._pending.discard(receipt)
                self._pending.add_unreadable(receipt.role, episode_id)
                self._set_aside.setdefault(receipt.role, set()).add(episode_id)

    def redeliver(self) -> None:
        """See ``ReplayBuffer.redeliver``."""
        with self._changed:
            self._pending.clear()
            for receipt, (data, arrived_s) in self._stored.items():
                self._pending.add(receipt, decode(data), arrived_s)
            self._changed.notify_all()

    def stored_ids(self, episode_ids: Sequence[str]) -> frozenset[str]:
        """See ``ReplayBuffer.stored_ids``."""
        with self._changed:
            return frozenset(self._ever_stored.intersection(episode_ids))

    def unreadable_ids(self, role: str) -> frozenset[str]:
        """See ``ReplayBuffer.unreadable_ids``; every episode was decoded when it was stored."""
        with self._changed:
            return frozenset(self._set_aside.get(role, ()))

    def stats(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.stats``."""
        with self._changed:
            waiting = dict.fromkeys((f"waiting/{receipt.role}" for receipt in self._stored), 0)
            for receipt in self._stored:
                waiting[f"waiting/{receipt.role}"] += receipt in self._pending
            return {
                "waiting": len(self._pending),
                "delivered": len(self._stored) - len(self._pending),
                **self._counts,
                "bytes": sum(len(data) for data, _ in self._stored.values()),
                **waiting,
            }

    def memory(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.memory``; without a server it is empty."""
        return {}

    def hurry(self) -> None:
        """Do nothing: there is no server."""

    def close(self) -> None:
        """Do nothing: there is no connection to close."""
