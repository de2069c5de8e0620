"""What the learner has taken from the buffer for the update under way."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from cluster.actors.messages import Shortage
from cluster.configs.schema import Config
from grpo_core.advantages.dynamic_sampling import missing_blocks, within_bound
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.learner import Learner
from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt, ReplayBuffer

_log = logging.getLogger(__name__)


class BatchCollector:
    """Deliveries that nothing was learned from yet; the first holds the update's own blocks, later ones top it up."""

    def __init__(self, config: Config, buffer: ReplayBuffer) -> None:
        self._buffer = buffer
        self._max_staleness = config.rollout.max_staleness
        self._games = config.rollout.num_generations
        self._most_extra = config.learner.top_up_episodes // config.rollout.num_generations
        self._deliveries: list[Delivery] = []
        self._wanted: Mapping[str, int] = {}  # the update's own blocks
        self._delivered: Counter[str] = Counter()  # blocks
        self.waited_s = 0.0

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All taken, in the order of their names: which game of a block ended first must not change the update."""
        taken = [episode for delivery in self._deliveries for episode in delivery.episodes]
        return tuple(sorted(taken, key=lambda episode: episode.episode_id))

    @property
    def receipts(self) -> list[Receipt]:
        """Of all taken."""
        return [receipt for delivery in self._deliveries for receipt in delivery.receipts]

    @property
    def extra_episodes(self) -> int:
        """Episodes that top the update up."""
        return sum(len(delivery.episodes) for delivery in self._deliveries[1:])

    def take(self, blocks: Mapping[str, int], timeout_s: float) -> None:
        """Add these blocks, if any, less those of which nothing can be read; raises as ``ReplayBuffer.take`` does."""
        if not any(blocks.values()):
            return
        start = time.perf_counter()
        delivery = self._readable(blocks, timeout_s)
        self.waited_s += time.perf_counter() - start
        if not self._deliveries:
            self._wanted = dict(blocks)
        self._deliveries.append(delivery)
        self._delivered.update(blocks)

    def _readable(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """What there is of blocks that were all stored: one whose every episode was set aside as poison never comes."""
        try:
            return self._buffer.take(blocks, timeout_s)
        except BlocksMissingError as error:
            there = {power: count - error.missing.get(power, 0) for power, count in blocks.items()}
            explained = sum(error.missing.values()) * self._games <= self._buffer.stats()["poison"]
            if not explained or not (any(there.values()) or self._deliveries):
                raise
            _log.warning("going on without blocks that cannot be read: %s", error.missing)
        return self._buffer.take(there, timeout_s)

    def fresh(self, version: int) -> tuple[Episode, ...]:
        """The episodes that update ``version`` learns from.

        Admission keeps episodes young; what a straggler brings too late is set aside, unless nothing else is there.
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
        judgement = compute_advantages(episodes, learner.settings, learner.grouping, learner.baselines, learner.memory)
        missing = missing_blocks(judgement, self._wanted, self._delivered)
        left = self._most_extra - (self._delivered.total() - sum(self._wanted.values()))
        return Shortage(missing, within_bound(missing, max(0, left), learner.version))

    def clear(self) -> None:
        """The update is made."""
        self._deliveries.clear()
        self._delivered.clear()
        self._wanted = {}
        self.waited_s = 0.0


def ids_set_aside(delivered: Sequence[Episode], used: Sequence[Episode]) -> list[str]:
    """Ids of the delivered episodes that the update did not use, in order."""
    used_ids = {episode.episode_id for episode in used}
    return [episode.episode_id for episode in delivered if episode.episode_id not in used_ids]
