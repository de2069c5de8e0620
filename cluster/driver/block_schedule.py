"""The schedule of line-up blocks: which ones are still to be played, in the buffer, or used by updates."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from cluster.configs.sections import RolloutSettings
from cluster.errors import RunError
from grpo_core.settings import LearnerSettings
from opponents.league.league import League
from opponents.matchmaking.lineup import LineupBlock, block_name, extra_block, learner_of_block
from opponents.matchmaking.matchmaker import Matchmaker
from services.replay.buffer import ReplayBuffer

_BLOCKS_AT_ONCE = 1_000  # of the schedule looked up together
_NUMBERS_AT_ONCE = 16  # of extra blocks looked up together


class BlockSchedule:
    """The schedule of blocks, which the seed fixes, and extra blocks, which top updates up or replace unreadable ones.

    Update ``v`` takes as many blocks of each role as blocks ``[v * blocks_per_update, (v + 1) * blocks_per_update)``
    hold; the buffer gives the oldest of each role. Extra blocks are numbered by the update that asked for them, so
    that the same update finds them again after a restart. Each stands for a block that the update lacks, so no other
    block waits longer. One that came too late is used by the next update, and counts toward the extra blocks that
    ``learner.top_up_episodes`` allows there; otherwise every later block of its role would be used one update late.
    """

    def __init__(
        self,
        seed: int,
        roles: Sequence[str],
        learner: LearnerSettings,
        rollout: RolloutSettings,
        lineups: Matchmaker | League,
        version: int,
    ) -> None:
        """Begin after update ``version``; ``lineups`` draws the blocks of the run with this seed."""
        self._roles = tuple(roles)
        self._lineups = lineups
        self._seed = seed
        self._generations = rollout.num_generations
        self._per_update = learner.episodes_per_update // rollout.num_generations
        self._max_staleness = rollout.max_staleness
        self._total = learner.updates * self._per_update
        self._updates = learner.updates
        self._most_extra = learner.top_up_episodes // rollout.num_generations  # blocks of an update
        self._next = 0
        self._complete: set[int] = set()  # stored whole before this process began
        self._started = 0
        self._finished: Counter[str] = Counter()
        self._version = version
        self._scheduled: Counter[str] = Counter()  # blocks of the schedule up to the update under way
        for update in range(version):
            self._scheduled.update(self.quota(update))
        self._used = Counter(self._scheduled)
        self._scheduled.update(self.quota(version))
        self._due = Counter(self.quota(version))  # blocks that the update under way still needs
        self._extra: deque[tuple[int, int]] = deque()  # (update, index) of extra blocks to be played
        self._asked: Counter[str] = Counter()  # extra blocks numbered for the update under way
        self._late: Counter[str] = Counter()  # extra blocks that came too late for earlier updates
        self._taken_late = 0  # late blocks given to the update under way, or still due to it
        self._stored_extra: dict[int, dict[int, bool]] = {}  # update -> index -> stored whole, before this process

    @property
    def started_episodes(self) -> int:
        """Episodes of the schedule started so far by any process; extra ones have their own bound."""
        return (self._started + len(self._complete)) * self._generations

    @property
    def topped_up(self) -> dict[str, int]:
        """Extra blocks of each role handed over so far; exact once nothing of the update's schedule is due."""
        return dict(self._used - self._scheduled)

    def recover(self, buffer: ReplayBuffer, topped_up: Mapping[str, int]) -> None:
        """After a restart, mark the blocks that the buffer ever stored, so that they are not played again.

        ``topped_up``: extra blocks of each role that the updates so far have used.

        Raises RunError if the buffer is another run's, or was emptied.
        """
        for start in range(0, self._total, _BLOCKS_AT_ONCE):
            stored = self._stored(buffer, range(start, min(start + _BLOCKS_AT_ONCE, self._total)))
            for index in (index for index, whole in stored.items() if whole):
                self._complete.add(index)
                self._finished[learner_of_block(self._seed, index, self._roles)] += 1
        self._used.update(topped_up)
        self._late.subtract(topped_up)
        for update in range(self._updates if self._most_extra or any(topped_up.values()) else 0):
            self._stored_extra[update] = stored = self._extra_blocks_of(update, buffer)
            if update < self._version:
                self._adopt_late(update)
            if update == self._version - 1:
                self._replay_lost(update, stored)
        forgotten = sum((self._used - self._finished).values())
        if forgotten:
            raise RunError(
                f"the replay server knows nothing of {forgotten} blocks that this run has used; is it the run's own "
                "(redis.url or redis.urls, or the run folder's redis/)?"
            )

    def wanted(self) -> bool:
        """Whether the schedule has a block that was not started yet."""
        while self._next in self._complete:
            self._next += 1
        return self._next < self._total

    def admits(self) -> bool:
        """Whether a further block may start: AReaL's staleness bound on how far rollouts run ahead of the learner.

        Games start only while all episodes ever started fit ``(version + max_staleness + 1) * episodes_per_update``. So
        a block is used at most ``max_staleness`` updates after the version that began it, unless it is so slow that a
        later block of its role is used first; the learner sets aside and counts episodes that are too old by then.
        Extra blocks do not count here: each replaces a used one.
        """
        admitted = (self._version + self._max_staleness + 1) * self._per_update
        return self._started + len(self._complete) + 1 <= admitted

    def next_block(self) -> LineupBlock:
        """Start the first block that was not started yet; ``wanted`` must hold."""
        assert self.wanted()
        block = self._block(self._next, self._next // self._per_update)
        self._next += 1
        self._started += 1
        return block

    def extra_wanted(self) -> bool:
        """Whether a requested extra block was not started yet."""
        return bool(self._extra)

    def next_extra_block(self) -> LineupBlock:
        """Start the next extra block; ``extra_wanted`` must hold."""
        update, index = self._extra.popleft()
        return self._block(index, update)

    def finished(self, block: LineupBlock) -> None:
        """Record that a block was played and is in the buffer."""
        self._finished[block.role] += 1

    def quota(self, update: int) -> dict[str, int]:
        """Blocks of each role that update number ``update`` (from 0) takes, extra blocks excluded."""
        indices = range(update * self._per_update, (update + 1) * self._per_update)
        return dict(Counter(learner_of_block(self._seed, index, self._roles) for index in indices))

    def missing(self) -> dict[str, int]:
        """Blocks of each role that the update under way still waits for."""
        return {
            role: count - waiting
            for role, count in self._due.items()
            if count > (waiting := self._finished[role] - self._used[role])
        }

    def ready(self) -> bool:
        """Whether the buffer holds all blocks that the update under way still needs."""
        return not self.missing()

    def hand_over(self) -> dict[str, int]:
        """Return the due blocks that the buffer holds, for the learner to take; they count as used."""
        blocks = {
            role: count
            for role, due in self._due.items()
            if (count := min(due, self._finished[role] - self._used[role])) > 0
        }
        self._used.update(blocks)
        self._due.subtract(blocks)
        return blocks

    def top_up(self, blocks: Mapping[str, int]) -> bool:
        """Request further blocks for the update under way; return whether there are any to wait for.

        Blocks that came too late for an earlier update are taken first, even if none are requested. New ones are
        limited by ``learner.top_up_episodes`` minus all late blocks, whether these arrive in time or not.
        """
        asked = self._within_room({role: max(0, blocks.get(role, 0) - self._late[role]) for role in self._roles})
        for role in self._roles:
            waiting = self._finished[role] - self._used[role] - self._due[role]
            late = min(self._late[role], max(waiting, blocks.get(role, 0)))
            self._late[role] -= late
            self._taken_late += late
            self._due[role] += late + asked[role]
            self._ask(role, asked[role])
        return any(self._due.values())

    def replace(self, blocks: Mapping[str, int]) -> None:
        """Request others for blocks of the update under way that were handed over and cannot be read."""
        for role, count in sorted(blocks.items()):
            self._due[role] += count
            self._ask(role, count)

    def updated(self) -> None:
        """Record that the update under way is done; blocks that it still lacked will be late."""
        self._late.update(+self._due)
        self._adopt_late(self._version)
        self._version += 1
        self._due = Counter(self.quota(self._version))
        self._scheduled.update(self._due)
        self._asked.clear()
        self._taken_late = 0

    def _ask(self, role: str, count: int) -> None:
        """Request so many more extra blocks of a role for the update under way."""
        for _ in range(count):
            index = extra_block(self._version, role, self._asked[role], self._roles)
            self._asked[role] += 1
            self._play_extra(self._version, index, self._stored_extra.get(self._version, {}).pop(index, False))

    def _within_room(self, lacking: Mapping[str, int]) -> Counter[str]:
        """Choose as many of these as the update has room for, one by one for the role that lacks the most."""
        room = self._most_extra - self._taken_late - self._late.total() - self._asked.total()
        first = self._version % len(self._roles)  # ties are broken in a different order at each update
        roles = self._roles[first:] + self._roles[:first]
        asked: Counter[str] = Counter()
        for _ in range(min(room, sum(lacking.values()))):
            asked[max(roles, key=lambda role: lacking[role] - asked[role])] += 1
        return asked

    def _extra_blocks_of(self, update: int, buffer: ReplayBuffer) -> dict[int, bool]:
        """Find an update's extra blocks with a stored episode, and whether they are whole.

        Blocks end in any order, so a gap ends the search only beyond the most that an update may request.
        """
        found: dict[int, bool] = {}
        for start in itertools.count(0, _NUMBERS_AT_ONCE):
            numbers = range(start, start + _NUMBERS_AT_ONCE)
            indices = [extra_block(update, role, number, self._roles) for role in self._roles for number in numbers]
            stored = self._stored(buffer, indices)
            found |= stored
            if not stored and numbers.stop >= self._most_extra:
                break
        return found

    def _adopt_late(self, update: int) -> None:
        """Count as late the extra blocks that an earlier process stored for this update, which did not request them."""
        for index, whole in self._stored_extra.pop(update, {}).items():
            self._late[learner_of_block(self._seed, index, self._roles)] += 1
            self._play_extra(update, index, whole)

    def _replay_lost(self, update: int, stored: Mapping[int, bool]) -> None:
        """Replay extra blocks that were under way when the driver died, after others had been used instead."""
        for role in self._roles:
            numbers = itertools.count()
            while self._late[role] < 0:
                index = extra_block(update, role, next(numbers), self._roles)
                if index not in stored:
                    self._extra.append((update, index))
                    self._late[role] += 1

    def _play_extra(self, update: int, index: int, whole: bool) -> None:
        if whole:
            self._finished[learner_of_block(self._seed, index, self._roles)] += 1
        else:
            self._extra.append((update, index))

    def _block(self, index: int, update: int) -> LineupBlock:
        # Snapshots that exist whenever admission lets this block start, however fast the learner is.
        return self._lineups.block(index, newest_snapshot=max(0, update - self._max_staleness))

    def _stored(self, buffer: ReplayBuffer, indices: Sequence[int]) -> dict[int, bool]:
        """Find the blocks of which the buffer ever stored an episode, and whether it stored all."""
        ids = {f"{block_name(index)}/{member}": index for index in indices for member in range(self._generations)}
        counts = Counter(ids[episode_id] for episode_id in buffer.stored_ids(list(ids)))
        return {index: counts[index] == self._generations for index in indices if counts[index]}
