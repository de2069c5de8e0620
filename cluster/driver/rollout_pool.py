"""The pool of rollout actors: it distributes training blocks and evaluations evenly among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from cluster.actors.messages import BlockReport
from cluster.driver.actor_supervisor import Supervisor
from cluster.driver.rollout_worker import Job, PoolEvents
from cluster.runtime.ended_processes import Ref
from opponents.matchmaking.lineup import LineupBlock
from opponents.population.member import Member
from services.environments.evaluation import EvaluationGame, EvaluationResult

EVALUATION_CHUNK = 7  # games of one call: few enough for a smooth progress bar
EVALUATION_POLL_S = 0.5  # time limits are checked this often


class RolloutPool(Supervisor):
    """Plays blocks and evaluations; other workers replay those of a worker that is replaced."""

    def has_room(self, games: int) -> bool:
        """Whether some worker could start so many more games."""
        return not self._queue and not self._goal.resting and self._queue.has_room(self._workers, games)

    def submit(self, block: LineupBlock, members: Sequence[Member]) -> None:
        """Begin a block on the least loaded worker; ``has_room`` must hold."""

        def send(actor: ActorHandle, version: int) -> Ref:
            return actor.play_block.remote(block, list(members), version)

        def done(report: BlockReport) -> None:
            self._events.blocks.append(report)
            self._counters["games"] += report.games

        self._queue.add(Job(block.block_id, block.num_generations, send, done, self._settings.block_timeout_s))
        self._place()

    def poll(self, others: Sequence[Ref], timeout_s: float) -> PoolEvents:
        """Wait up to ``timeout_s`` for the first event (a block, a swap, or one of ``others``); return all events.

        Raises RunError if more than ``rollout.max_replacements`` actors failed, or several at the same job.
        """
        self._place()
        other = self._wait(others, timeout_s)
        self._replace_overdue(blocks=True)
        events, self._events = self._events, PoolEvents()
        events.other = other
        return events

    def evaluate(
        self, games: Sequence[EvaluationGame], progress: Callable[[int], None], timeout_s: float
    ) -> list[EvaluationResult]:
        """Play evaluation games on all workers, and call ``progress`` with the number of games just played.

        Blocks under way share the engines, so their time limits are extended by the time of the evaluation. A worker
        that finishes no evaluation game within ``timeout_s`` is replaced. Raises as ``poll`` does.
        """
        start = time.monotonic()
        chunks = [list(games[i : i + EVALUATION_CHUNK]) for i in range(0, len(games), EVALUATION_CHUNK)]
        results: dict[int, list[EvaluationResult]] = {}

        def job(number: int) -> Job:
            def send(actor: ActorHandle, version: int) -> Ref:
                return actor.play_evaluation.remote(chunks[number], version)

            def done(played: list[EvaluationResult]) -> None:
                results[number] = played
                progress(len(played))

            return Job(f"part {number + 1} of an evaluation", 0, send, done, timeout_s)

        self._queue.add(*map(job, range(len(chunks))))
        while len(results) < len(chunks):
            self._place()
            self._wait((), EVALUATION_POLL_S)
            self._replace_overdue(blocks=False)
        for worker in self._workers:
            worker.prolong_jobs(time.monotonic() - start)
        return [result for number in sorted(results) for result in results[number]]

    def stats(self) -> dict[str, float]:
        """Sum the engines' counters over all workers so far; without an answer within 10 s the last values count.

        ``games`` are the training games that ended.
        """
        asked = {worker.actor.stats.remote(): worker for worker in self._workers if worker.loaded}
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=10.0) if asked else ([], [])
        for ref in ready:
            try:
                counters = dict(ray.get(ref))
            except RayError:
                continue  # it is replaced at the next poll
            self._count(asked[ref], counters)
        return {"games": 0.0, **self._counters}

    def _place(self) -> None:
        self._queue.place(self._workers, self._goal)
        self._advance_all()
