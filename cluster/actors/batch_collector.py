"""Collects the episodes for the update under way from the replay buffer."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from cluster.actors.messages import Shortage
from grpo_core.advantages.dynamic_sampling import missing_blocks, within_bound
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.learner import Learner
from grpo_core.types import Episode
from opponents.matchmaking.lineup import is_block_name
from services.replay.buffer import (
    NAMELESS,
    BlocksMissingError,
    Delivery,
    Receipt,
    ReplayBuffer,
    UnreadableError,
    block_of,
)

FIRST_LOOK_S = 1.0  # after which blocks that are missing may be found unreadable, and are not waited for
_log = logging.getLogger(__name__)


class BatchCollector:
    """Deliveries for one update: the first holds the update's own blocks, later ones top it up."""

    def __init__(
        self,
        buffer: ReplayBuffer,
        num_generations: int,
        max_staleness: int,
        top_up_episodes: int,
        fault: Callable[[Episode], str | None] | None = None,
    ) -> None:
        """Collect nothing yet; a block has ``num_generations`` episodes, ``max_staleness`` is in updates.

        ``fault`` says why an episode cannot be used, and such ones are set aside as poison; None: all can.
        """
        self._buffer = buffer
        self._fault = fault
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
        """Add these blocks, if any, except unreadable ones.

        Raises as ``ReplayBuffer.take`` does; UnreadableError if there is nothing else, neither here nor collected
        before. Unreadable blocks are then skipped, so that others can be taken in their place.
        """
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
        first_s = min(FIRST_LOOK_S, timeout_s)
        for wait_s in (first_s, timeout_s - first_s):
            try:
                return self._take_usable(blocks, wait_s)
            except UnreadableError:
                raise
            except BlocksMissingError as error:
                missing, lost = error.missing, error
            excused = {role: self._unreadable_blocks(role)[:count] for role, count in missing.items()}
            if all(len(excused[role]) == count for role, count in missing.items()):
                break
        else:
            raise lost
        names = [name for of_role in excused.values() for block in of_role for name in block]
        there = {role: count - missing.get(role, 0) for role, count in blocks.items()}
        _log.warning("going on without blocks that cannot be read: %s", ", ".join(names))
        self._excused_now.update(names)
        try:
            delivery = self._take_usable(there, timeout_s) if any(there.values()) else Delivery((), ())
        except UnreadableError as error:
            unusable = error.missing
            raise self._unreadable(
                {role: missing.get(role, 0) + unusable.get(role, 0) for role in {*missing, *unusable}}, names
            ) from error
        if not (delivery.episodes or self._deliveries):
            raise self._unreadable(missing, names)
        return delivery

    def _take_usable(self, blocks: Mapping[str, int], timeout_s: float) -> Delivery:
        """Take the blocks; set aside episodes that cannot be used. Raises UnreadableError if none is left."""
        usable, gone = self._set_faulty_aside(self._buffer.take(blocks, timeout_s))
        foreign = _of_others(gone)
        while foreign:  # they took the places of the run's own, which would all be used too late
            try:
                delivery = self._buffer.take(foreign, min(FIRST_LOOK_S, timeout_s))
            except BlocksMissingError:
                break
            further, gone_too = self._set_faulty_aside(delivery)
            usable, gone, foreign = [*usable, *further], gone | gone_too, _of_others(gone_too)
        self._excused_now.update(gone)  # they count as delivered, and excuse no other block
        if gone and not (usable or self._deliveries):
            raise self._unreadable({role: count for role, count in blocks.items() if count}, sorted(gone))
        return Delivery(tuple(episode for episode, _ in usable), tuple(receipt for _, receipt in usable))

    def _set_faulty_aside(self, delivery: Delivery) -> tuple[list[tuple[Episode, Receipt]], dict[str, str]]:
        """Return the episodes that can be used, and the role of each block that has none."""
        pairs = list(zip(delivery.episodes, delivery.receipts, strict=True))
        if self._fault is None:
            return pairs, {}
        faults = {receipt: fault for episode, receipt in pairs if (fault := self._fault(episode)) is not None}
        for episode, receipt in pairs if faults else ():
            if receipt in faults:
                self._buffer.set_aside(receipt, episode.episode_id, faults[receipt])
        usable = [(episode, receipt) for episode, receipt in pairs if receipt not in faults]
        blocks_left = {episode.block_id for episode, _ in usable}
        return usable, {episode.block_id: episode.role for episode, _ in pairs if episode.block_id not in blocks_left}

    @staticmethod
    def _unreadable(missing: Mapping[str, int], names: Sequence[str]) -> UnreadableError:
        return UnreadableError(
            f"none of the blocks can be read: all were set aside as poison, for instance {names[0]}; the learner's log "
            "and the poison stream of the replay server have the reasons",
            missing,
        )

    def _unreadable_blocks(self, role: str) -> list[list[str]]:
        """Find blocks of which all episodes are unreadable, and which no update has skipped yet, by their names.

        Unreadable episodes without an id may be any: they complete the blocks that lack the fewest, and then make
        blocks of their own.
        """
        unreadable = self._buffer.unreadable_ids(role)
        nameless = sorted(name for name in unreadable if name.startswith(NAMELESS))
        nameless = [name for name in nameless if name not in self._excused | self._excused_now]
        episodes = Counter(block_of(name) for name in unreadable if not name.startswith(NAMELESS))
        found: list[list[str]] = []
        for block, count in sorted(episodes.items(), key=lambda item: (-item[1], item[0])):
            lacking = max(0, self._num_generations - count)
            if block not in self._excused | self._excused_now and lacking <= len(nameless):
                found.append([block, *nameless[:lacking]])
                del nameless[:lacking]
        size = self._num_generations
        return found + [nameless[at : at + size] for at in range(0, len(nameless) - size + 1, size)]

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


def _of_others(gone: Mapping[str, str]) -> Counter[str]:
    """Count, by role, the blocks that this run cannot have played, by their names."""
    return Counter(role for block, role in gone.items() if not is_block_name(block))


def set_aside(delivered: Sequence[Episode], used: Sequence[Episode]) -> list[Episode]:
    """The delivered episodes that the update did not use, in order."""
    used_ids = {episode.episode_id for episode in used}
    return [episode for episode in delivered if episode.episode_id not in used_ids]
