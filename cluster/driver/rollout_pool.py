"""The rollout actors of a run behind one face: who plays what, training blocks and evaluations alike."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from cluster.actors.messages import BlockReport
from cluster.configs.schema import RolloutSettings
from cluster.driver.supervisor import Crew, PoolEvents
from cluster.driver.worker import Job, Ref, Worker
from cluster.evaluation.evaluation_games import EvaluationGame, EvaluationResult
from cluster.runtime.placement import FurtherPlace, Slot
from opponents.matchmaking.lineup import LineupBlock
from opponents.population.member import Member

EVALUATION_CHUNK = 7  # games of one call: small enough for a smooth progress bar
EVALUATION_POLL_S = 0.5  # time limits are looked at this often


class WorkerPool:
    """Gives blocks and evaluations to rollout actors evenly. What a replaced one had is played again elsewhere."""

    def __init__(
        self,
        spawn: Callable[[Slot], ActorHandle],
        settings: RolloutSettings,
        republish: Callable[[], Ref] | None = None,
        further: Callable[[], FurtherPlace] | None = None,
    ) -> None:
        """Start the actors.

        Args:
            spawn: makes the actor of a slot: ``0 <= slot < rollout.actors``, or a further place.
            settings: how many, and the time limits.
            republish: a new reference to the newest weights, for when one was lost; None: the lost one is sent again.
            further: asks the cluster for room for one more actor; None: there are ``rollout.actors``, always.
        """
        self._crew = Crew(spawn, settings, republish, further)
        self._games_per_actor = settings.games_per_actor
        self._block_timeout_s = settings.block_timeout_s
        self._unplaced: list[Job] = []
        self._counters: defaultdict[str, float] = defaultdict(float)  # engines' counters, those of the dead included

    @property
    def size(self) -> int:
        """Workers alive."""
        return len(self._crew.workers)

    @property
    def able(self) -> int:
        """Workers that may be given games: not those that still load, or leave when they have finished theirs."""
        return len(self._crew.playing)

    @property
    def coming(self) -> int:
        """Workers that were asked for and that the cluster has no room for yet."""
        return self._crew.coming

    def resize(self, wanted: int) -> None:
        """Have so many workers; those that are too many finish their games first.

        Args:
            wanted: at least ``rollout.actors``.
        """
        self._crew.resize(wanted)

    @property
    def games_in_flight(self) -> int:
        """Games given to workers."""
        return sum(worker.load for worker in self._crew.workers)

    @property
    def restarts(self) -> int:
        """Workers replaced."""
        return self._crew.restarts

    @property
    def replacements_left(self) -> int:
        """Workers that may still fail before the run gives up; those that go down with their node do not count."""
        return self._crew.replacements_left

    @property
    def swap_failures(self) -> Mapping[str, int]:
        """Weights that did not get into an engine, by cause: died, timed_out, refused, lost."""
        return self._crew.swap_failures

    def wait_ready(self) -> None:
        """Wait until every actor has loaded its engine.

        Raises:
            RunError: see ``Crew.wait_ready``.
        """
        self._crew.wait_ready()

    def broadcast(self, weights: Ref, version: int) -> None:
        """Send new learner weights to every engine; jobs begin with them or newer ones. Wakes those that ``rest``."""
        self._crew.broadcast(weights, version)

    def rest(self) -> bool:
        """Ask all engines to free their GPU, and hold their games, until the next broadcast; whether they have.

        To be asked again between polls. Games lose no time by it: their limits stand still. An actor that does not
        answer is ended, which frees the GPU too, once its processes are gone; its replacement starts with the
        broadcast.
        """
        return self._crew.rest()

    def has_room(self, games: int) -> bool:
        """Whether some worker may start ``games`` more."""
        waiting = self._unplaced or self._crew.lost or self._crew.resting
        return not waiting and self._least_loaded(games) is not None

    def start(self, block: LineupBlock, members: Sequence[Member]) -> None:
        """Begin a block on the least loaded worker; ``has_room`` must hold."""

        def send(actor: ActorHandle, version: int) -> Ref:
            return actor.play_block.remote(block, list(members), version)

        def done(report: BlockReport) -> None:
            self._crew.events.blocks.append(report)

        self._unplaced.append(Job(block.block_id, block.num_generations, send, done, self._block_timeout_s))
        self._place()

    def poll(self, others: Sequence[Ref], timeout_s: float) -> PoolEvents:
        """Wait up to ``timeout_s`` for anything to happen: blocks, swaps, or one of ``others``.

        Raises:
            RunError: more actors failed than ``rollout.max_replacements``, or several at the same job.
        """
        self._place()
        other = self._crew.wait(others, timeout_s)
        self._crew.replace_overdue(blocks=True)
        events = self._crew.events
        events.other = other
        for worker, counters in events.left:
            self._count(worker, counters)
        self._crew.events = PoolEvents()
        return events

    def evaluate(
        self, games: Sequence[EvaluationGame], progress: Callable[[int], None], timeout_s: float
    ) -> list[EvaluationResult]:
        """Play evaluation games on all workers; ``progress`` hears how many more are done.

        A worker of which no evaluation game comes within ``timeout_s`` is replaced. Blocks that are being played share
        the engines, so this time does not count as theirs.

        Raises:
            RunError: more actors failed than ``rollout.max_replacements``, or several at the same job.
        """
        start = time.monotonic()
        chunks = [list(games[at : at + EVALUATION_CHUNK]) for at in range(0, len(games), EVALUATION_CHUNK)]
        results: dict[int, list[EvaluationResult]] = {}

        def job(number: int) -> Job:
            def send(actor: ActorHandle, version: int) -> Ref:
                return actor.play_evaluation.remote(chunks[number], version)

            def done(played: list[EvaluationResult]) -> None:
                results[number] = played
                progress(len(played))

            return Job(f"part {number + 1} of an evaluation", 0, send, done, timeout_s)

        self._unplaced += map(job, range(len(chunks)))
        while len(results) < len(chunks):
            self._place()
            self._crew.wait((), EVALUATION_POLL_S)
            self._crew.replace_overdue(blocks=False)
        self._crew.prolong(time.monotonic() - start)
        return [result for number in sorted(results) for result in results[number]]

    def stats(self) -> dict[str, float]:
        """The engines' counters, summed over all workers there ever were, as far as they said within ten seconds."""
        asked = {worker.actor.stats.remote(): worker for worker in self._crew.workers if worker.loaded}
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=10.0) if asked else ([], [])
        for ref in ready:
            try:
                now = dict(ray.get(ref))
            except RayError:
                continue  # it is replaced at the next poll
            self._count(asked[ref], now)
        return dict(self._counters)

    def close(self) -> None:
        """End every actor."""
        self._crew.close()

    def _count(self, worker: Worker, now: dict[str, float]) -> None:
        for name, value in now.items():
            self._counters[name] += value - worker.counted.get(name, 0.0)
        worker.counted = now

    def _place(self) -> None:
        """Give every job to a worker that has room; an idle one takes those that wait for another's weights."""
        crew = self._crew
        jobs = [*crew.lost, *self._unplaced]
        crew.lost, self._unplaced = [], []
        for job in jobs:
            worker = None if crew.resting else self._least_busy() if job.evaluates else self._least_loaded(job.games)
            if worker is None:
                self._unplaced.append(job)
            else:
                worker.waiting.append(job)
        for idle in [worker for worker in crew.playing if not worker.jobs and crew.plays(worker)]:
            for other in crew.workers:
                while other.waiting and not crew.plays(other) and self._fits(idle, other.waiting[0].games):
                    idle.waiting.append(other.waiting.pop(0))
        for worker in list(crew.workers):  # one that leaves may go here
            crew.advance(worker)

    def _least_busy(self) -> Worker | None:
        return min(self._crew.playing, key=lambda worker: len(worker.jobs), default=None)

    def _least_loaded(self, games: int) -> Worker | None:
        worker = min(self._crew.playing, key=lambda candidate: candidate.load, default=None)
        return worker if worker is not None and self._fits(worker, games) else None

    def _fits(self, worker: Worker, games: int) -> bool:
        return worker.load == 0 or worker.load + games <= self._games_per_actor
