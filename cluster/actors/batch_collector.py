"""Collects the episodes for the update under way from the replay buffer."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from cluster.actors.messages import Shortage
from grpo_core.advantages.dynamic_sampling import missing_blocks, within_bound
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.learner import Learner
from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt, ReplayBuffer

_log = logging.getLogger(__name__)


class BatchCollector:
    """Deliveries for one update: the first holds the update's own blocks, later ones top it up."""

    def __init__(self, buffer: ReplayBuffer, num_generations: int, max_staleness: int, top_up_episodes: int) -> None:
        """Collect nothing yet; a block has ``num_generations`` episodes, ``max_staleness`` is in updates."""
        self._buffer = buffer
        self._num_generations = num_generations
        self._max_staleness = max_staleness
        self._most_extra = top_up_episodes // num_generations
        self._deliveries: list[Delivery] = []
        self._wanted: Mapping[str, int] = {}  # the update's own blocks
        self._delivered: Counter[str] = Counter()  # blocks
        self._excused: set[str] = set()  # unreadable blocks that earlier updates skipped
        self._excused_now: set[str] = set()  # unreadable blocks that this update skips

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All episodes, sorted by id: the update does not depend on the order in which games ended."""
        taken = [episode for delivery in self._deliveries for episode in delivery.episodes]
        return tuple(sorted(taken, key=lambda episode: episode.episode_id))

    @property
    def receipts(self) -> list[Receipt]:
        """Receipts of all episodes."""
        return [receipt for delivery in self._deliveries for receipt in delivery.receipts]

    @property
    def extra_episodes(self) -> int:
        """Number of episodes that top the update up."""
        return sum(len(delivery.episodes) for delivery in self._deliveries[1:])

    @property
    def excused_blocks(self) -> list[str]:
        """Unreadable blocks that updates have skipped so far; kept in checkpoints (``restore_excused``)."""
        return sorted(self._excused)

    def restore_excused(self, blocks: Iterable[str]) -> None:
        """Restore ``excused_blocks`` of an earlier process."""
        self._excused = set(blocks)

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> None:
        """Add these blocks, if any, except unreadable ones; raises as ``ReplayBuffer.take`` does."""
        if not any(blocks.values()):
            return
        delivery = self._take_readable(blocks, timeout_s)
        if not self._deliveries:
            self._wanted = dict(blocks)
        self._deliveries.append(delivery)
        self._delivered.update(blocks)

    def _take_readable(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """Take the blocks, but skip, once each, those of which every episode was set aside as unreadable.

        If any other block is missing, it is lost and the error is raised.
        """
        try:
            return self._buffer.take(blocks, timeout_s)
        except BlocksMissingError as error:
            excused = {role: self._unreadable_blocks(role)[:count] for role, count in error.missing.items()}
            lost = any(len(excused[role]) < count for role, count in error.missing.items())
            there = {role: count - error.missing.get(role, 0) for role, count in blocks.items()}
            if lost or not (any(there.values()) or self._deliveries):
                raise
            _log.warning("going on without blocks that cannot be read: %s", excused)
        delivery = self._buffer.take(there, timeout_s)
        self._excused_now.update(name for names in excused.values() for name in names)
        return delivery

    def _unreadable_blocks(self, role: str) -> list[str]:
        """Find blocks of which all episodes are unreadable, and which no update has skipped yet."""
        episodes = Counter(episode_id.rpartition("/")[0] for episode_id in self._buffer.unreadable_ids(role))
        whole = {block for block, count in episodes.items() if count >= self._num_generations}
        return sorted(whole - self._excused - self._excused_now)

    def fresh(self, version: int) -> tuple[Episode, ...]:
        """Select the episodes that update ``version`` learns from: those not stale, or all if all are stale."""
        oldest = version - self._max_staleness
        episodes = self.episodes
        return tuple(episode for episode in episodes if episode.oldest_version >= oldest) or episodes

    def shortage(self, learner: Learner) -> Shortage:
        """Find the blocks that would replace samples of zero-variance groups; raises as ``compute_advantages`` does."""
        episodes = self.fresh(learner.version)
        advantages = compute_advantages(episodes, learner.settings, learner.grouping, learner.baselines, learner.memory)
        missing = missing_blocks(advantages, self._wanted, self._delivered)
        left = self._most_extra - (self._delivered.total() - sum(self._wanted.values()))
        return Shortage(missing, within_bound(missing, max(0, left), learner.version))

    def clear(self) -> None:
        """Start to collect for the next update."""
        self._excused |= self._excused_now
        self._excused_now = set()
        self._deliveries.clear()
        self._delivered.clear()
        self._wanted = {}


def ids_set_aside(delivered: Sequence[Episode], used: Sequence[Episode]) -> list[str]:
    """Ids of the delivered episodes that the update did not use, in order."""
    used_ids = {episode.episode_id for episode in used}
    return [episode.episode_id for episode in delivered if episode.episode_id not in used_ids]
