"""Which line-up blocks are being played, waiting and used: the driver's account of the run's schedule."""

from __future__ import annotations

from collections import Counter

from cluster.actors.reports import BlockReport
from cluster.config import Config
from cluster.errors import RunError
from opponents.matchmaking import LineupBlock, Matchmaker, learner_of_block
from services.replay.buffer import ReplayBuffer


class BlockLedger:
    """The schedule of blocks, which the seed fixes.

    Update ``v`` takes as many blocks of each country as blocks ``[v * blocks_per_update, (v + 1) * blocks_per_update)``
    hold. Which blocks of a country those are, the buffer decides: the oldest.
    """

    def __init__(self, config: Config, matchmaker: Matchmaker, version: int) -> None:
        self._matchmaker = matchmaker
        self._seed = config.run.seed
        self._per_update = config.blocks_per_update
        self._generations = config.rollout.num_generations
        self._max_staleness = config.rollout.max_staleness
        self._total = config.learner.updates * self._per_update
        self._next = 0
        self._complete: set[int] = set()  # stored whole before this process began
        self._started = 0
        self._finished: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        for update in range(version):
            self._used.update(self.quota(update))

    @property
    def started_episodes(self) -> int:
        """Episodes ever started, by this process or an earlier one."""
        return (self._started + len(self._complete)) * self._generations

    def recover(self, buffer: ReplayBuffer) -> None:
        """After a restart: blocks whose episodes the buffer ever stored are not played again.

        Raises:
            RunError: the buffer is another run's, or was emptied.
        """
        for index in range(self._total):
            ids = [f"b{index:06d}/{member}" for member in range(self._generations)]
            if len(buffer.stored_ids(ids)) == self._generations:
                self._complete.add(index)
                self._finished[learner_of_block(self._seed, index)] += 1
        forgotten = sum((self._used - self._finished).values())
        if forgotten:
            raise RunError(
                f"the replay server knows nothing of {forgotten} blocks that this run has used; is it the run's own "
                "(redis.url, or the run folder's redis/)?"
            )

    def wanted(self) -> bool:
        """Whether the schedule has a block that nobody plays yet."""
        while self._next in self._complete:
            self._next += 1
        return self._next < self._total

    def next_block(self) -> LineupBlock:
        """The lowest block not yet started; ``wanted`` must hold."""
        assert self.wanted()
        # Snapshots that exist whenever admission lets this block start, however fast the learner is.
        newest = self._next // self._per_update - self._max_staleness
        block = self._matchmaker.block(self._next, newest_snapshot=max(0, newest))
        self._next += 1
        self._started += 1
        return block

    def finished(self, report: BlockReport) -> None:
        """A block was played and lies in the buffer."""
        self._finished[report.block.learner_power] += 1

    def quota(self, update: int) -> dict[str, int]:
        """Blocks of each country that update number ``update`` (from 0) takes."""
        first = update * self._per_update
        return dict(Counter(learner_of_block(self._seed, index) for index in range(first, first + self._per_update)))

    def missing(self, update: int) -> dict[str, int]:
        """Blocks of each country that this update still waits for."""
        return {
            power: count - (self._finished[power] - self._used[power])
            for power, count in self.quota(update).items()
            if count > self._finished[power] - self._used[power]
        }

    def ready(self, update: int) -> bool:
        """Whether the buffer holds all that this update takes."""
        return not self.missing(update)

    def used(self, update: int) -> None:
        """The learner has taken its blocks."""
        self._used.update(self.quota(update))
