"""The replay buffer on several Redis servers: each role's stream is on one of them, in the order of the servers.

An episode has one role, and so has a block, so both are whole on one server, whose promises hold for them. A delivery
of several roles takes from all servers or from none.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Mapping, Sequence

from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt
from services.replay.codec import encode
from services.replay.redis_store.buffer import RedisBuffer

_SHORTEST_POLL_S = 0.01
_LONGEST_POLL_S = 0.2


class SeveralServersBuffer:
    """A ``ReplayBuffer`` over the buffers of one run on several servers, which it closes; threads may share it."""

    def __init__(self, buffers: Sequence[RedisBuffer], roles: Sequence[str]) -> None:
        """Spread ``roles`` over the servers in turn; another role has its server by a checksum of its name.

        The order of servers and roles must stay the same for the life of a run. Raises ``ValueError`` without buffers.
        """
        if not buffers:
            raise ValueError("a replay buffer needs a server")
        self._buffers = tuple(buffers)
        self._home = {role: index % len(buffers) for index, role in enumerate(roles)}
        self._mutex = threading.RLock()  # between seeing that all blocks are there and taking them

    def server_of(self, role: str) -> int:
        """Return the index of the server that has a role's stream."""
        return self._home.get(role, zlib.crc32(role.encode()) % len(self._buffers))

    def append(self, episodes: Sequence[Episode]) -> int:
        """See ``ReplayBuffer.append``."""
        parts: dict[int, list[Episode]] = {}
        for episode in episodes:
            parts.setdefault(self.server_of(episode.role), []).append(episode)
        if len(parts) > 1:
            for episode in episodes:
                encode(episode)  # raises before the first server has stored any
        return sum(self._buffers[index].append(part) for index, part in parts.items())

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """See ``ReplayBuffer.take``."""
        wanted: dict[int, dict[str, int]] = {}
        for role, count in blocks.items():
            wanted.setdefault(self.server_of(role), {})[role] = count
        parts = {self._buffers[index]: wanted[index] for index in sorted(wanted)}  # locks are taken in one order
        began_s, away_s = time.monotonic(), sum(buffer.away_s for buffer in parts)
        pause_s = _SHORTEST_POLL_S
        while True:
            with self._mutex:
                lacking = [buffer for buffer, part in parts.items() if buffer.missing(part)]
                if not lacking:
                    return _joined([buffer.take_ready(part) for buffer, part in parts.items()], list(blocks))
            # While a server is away, the time limit stands still.
            waited_s = time.monotonic() - began_s - (sum(buffer.away_s for buffer in parts) - away_s)
            if waited_s >= timeout_s:
                raise _missing([buffer.missing_error(parts[buffer], timeout_s) for buffer in lacking])
            time.sleep(min(timeout_s - waited_s, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        """See ``ReplayBuffer.acknowledge``."""
        with self._mutex:
            for index, buffer in enumerate(self._buffers):
                buffer.acknowledge([receipt for receipt in receipts if self.server_of(receipt.role) == index])

    def set_aside(self, receipt: Receipt, episode_id: str, reason: str) -> None:
        """See ``ReplayBuffer.set_aside``."""
        with self._mutex:
            self._buffers[self.server_of(receipt.role)].set_aside(receipt, episode_id, reason)

    def redeliver(self) -> None:
        """See ``ReplayBuffer.redeliver``; the servers' locks are taken in their order, so two learners never share."""
        with self._mutex:
            for buffer in self._buffers:
                buffer.redeliver()

    def stored_ids(self, episode_ids: Sequence[str]) -> frozenset[str]:
        """See ``ReplayBuffer.stored_ids``."""
        return frozenset().union(*(buffer.stored_ids(episode_ids) for buffer in self._buffers))

    def unreadable_ids(self, role: str) -> frozenset[str]:
        """See ``ReplayBuffer.unreadable_ids``."""
        return self._buffers[self.server_of(role)].unreadable_ids(role)

    def stats(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.stats``: the sums over all servers."""
        total: dict[str, float] = {}
        for buffer in self._buffers:
            for name, value in buffer.stats().items():
                total[name] = total.get(name, 0) + value
        return total

    def memory(self) -> Mapping[str, float]:
        """See ``ReplayBuffer.memory``: of the fullest server, because each stops the run when it is full."""
        each = [buffer.memory() for buffer in self._buffers]
        return max(each, key=_fullness)

    def hurry(self) -> None:
        """See ``ReplayBuffer.hurry``."""
        for buffer in self._buffers:
            buffer.hurry()

    def close(self) -> None:
        """See ``ReplayBuffer.close``."""
        for buffer in self._buffers:
            buffer.close()


def _fullness(facts: Mapping[str, float]) -> tuple[float, float]:
    used = facts.get("used", 0.0)
    return used / facts.get("limit", float("inf")), used


def _joined(deliveries: Sequence[Delivery], roles: Sequence[str]) -> Delivery:
    """Join what the servers gave, in the order of the roles."""
    pairs = [pair for each in deliveries for pair in zip(each.episodes, each.receipts, strict=True)]
    pairs.sort(key=lambda pair: roles.index(pair[1].role))
    return Delivery(tuple(episode for episode, _ in pairs), tuple(receipt for _, receipt in pairs))


def _missing(errors: Sequence[BlocksMissingError]) -> BlocksMissingError:
    missing = {role: count for error in errors for role, count in error.missing.items()}
    return BlocksMissingError(" ".join(map(str, errors)), missing)
