"""The episodes that the learner has taken from the buffer for the update under way."""

from __future__ import annotations

import logging
import time
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
        """Collect nothing yet.

        Args:
            buffer: holds the episodes.
            num_generations: episodes of a block.
            max_staleness: updates that an episode may be older than the learner.
            top_up_episodes: the most that may top an update up.
        """
        self._buffer = buffer
        self._num_generations = num_generations
        self._max_staleness = max_staleness
        self._most_extra = top_up_episodes // num_generations
        self._deliveries: list[Delivery] = []
        self._wanted: Mapping[str, int] = {}  # the update's own blocks
        self._delivered: Counter[str] = Counter()  # blocks
        self._excused: set[str] = set()  # unreadable blocks that earlier updates did without
        self._excused_now: set[str] = set()  # likewise, this update
        self.waited_s = 0.0

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All episodes, sorted by id, so that the order in which games ended does not change the update."""
        taken = [episode for delivery in self._deliveries for episode in delivery.episodes]
        return tuple(sorted(taken, key=lambda episode: episode.episode_id))

    @property
    def receipts(self) -> list[Receipt]:
        """Of all episodes."""
        return [receipt for delivery in self._deliveries for receipt in delivery.receipts]

    @property
    def extra_episodes(self) -> int:
        """Episodes that top the update up."""
        return sum(len(delivery.episodes) for delivery in self._deliveries[1:])

    @property
    def excused_blocks(self) -> list[str]:
        """Unreadable blocks that the updates so far did without; kept in checkpoints (``restore_excused``)."""
        return sorted(self._excused)

    def restore_excused(self, blocks: Iterable[str]) -> None:
        """Take over ``excused_blocks`` of an earlier process."""
        self._excused = set(blocks)

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> None:
        """Add these blocks, if any, except unreadable ones; raises as ``ReplayBuffer.take`` does."""
        if not any(blocks.values()):
            return
        start = time.perf_counter()
        delivery = self._take_readable(blocks, timeout_s)
        self.waited_s += time.perf_counter() - start
        if not self._deliveries:
            self._wanted = dict(blocks)
        self._deliveries.append(delivery)
        self._delivered.update(blocks)

    def _take_readable(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """A block whose every episode was set aside as poison never comes: the update does without it, once.

        Each missing block must be such a block, or it is lost and the error is raised.
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
        """Blocks of which all episodes are poison, and which no update did without yet."""
        episodes = Counter(episode_id.rpartition("/")[0] for episode_id in self._buffer.unreadable_ids(role))
        whole = {block for block, count in episodes.items() if count >= self._num_generations}
        return sorted(whole - self._excused - self._excused_now)

    def fresh(self, version: int) -> tuple[Episode, ...]:
        """The episodes that update ``version`` learns from.

        Admission keeps episodes fresh; stale ones of a slow actor are set aside, unless there are no others.
        """
        oldest = version - self._max_staleness
        episodes = self.episodes
        return tuple(episode for episode in episodes if episode.oldest_version >= oldest) or episodes

    def shortage(self, learner: Learner) -> Shortage:
        """Blocks that would replace samples of zero-variance groups; the learner's state does not change.

        Raises:
            GroupingError, DivergenceError: see ``compute_advantages``.
        """
        episodes = self.fresh(learner.version)
        advantages = compute_advantages(episodes, learner.settings, learner.grouping, learner.baselines, learner.memory)
        missing = missing_blocks(advantages, self._wanted, self._delivered)
        left = self._most_extra - (self._delivered.total() - sum(self._wanted.values()))
        return Shortage(missing, within_bound(missing, max(0, left), learner.version))

    def clear(self) -> None:
        """The update is made; start to collect for the next one."""
        self._excused |= self._excused_now
        self._excused_now = set()
        self._deliveries.clear()
        self._delivered.clear()
        self._wanted = {}
        self.waited_s = 0.0


def ids_set_aside(delivered: Sequence[Episode], used: Sequence[Episode]) -> list[str]:
    """Ids of the delivered episodes that the update did not use, in order."""
    used_ids = {episode.episode_id for episode in used}
    return [episode.episode_id for episode in delivered if episode.episode_id not in used_ids]
