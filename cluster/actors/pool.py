"""The rollout actors of a run: who plays what, for how long, and what happens when one dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayTaskError

from cluster.actors.reports import BlockReport
from cluster.config import RolloutSettings
from cluster.errors import RunError
from cluster.games import EvaluationGame, EvaluationResult
from cluster.runtime import death_of
from opponents.matchmaking import LineupBlock
from opponents.population import Member

EVALUATION_CHUNK = 7  # games of one call: small enough for a smooth progress bar


@dataclass(slots=True, eq=False)
class _Worker:
    actor: ActorHandle
    load: int = 0  # games in flight


@dataclass(frozen=True, slots=True)
class _Flight:
    block: LineupBlock
    members: Sequence[Member]
    worker: _Worker
    deadline: float  # time.monotonic()


@dataclass(slots=True)
class PoolEvents:
    """What came back since the last look."""

    blocks: list[BlockReport] = field(default_factory=list)
    swap_seconds: list[float] = field(default_factory=list)
    other: list[ray.ObjectRef[Any]] = field(default_factory=list)  # refs of the caller that are ready


class WorkerPool:
    """Rollout actors behind one face. A dead or stuck one is replaced and its blocks are played again."""

    def __init__(self, spawn: Callable[[], ActorHandle], settings: RolloutSettings) -> None:
        self._spawn = spawn
        self._settings = settings
        self._workers = [_Worker(spawn()) for _ in range(settings.actors)]
        self._flights: dict[ray.ObjectRef[Any], _Flight] = {}
        self._swaps: dict[ray.ObjectRef[Any], _Worker] = {}
        self._lost: list[_Flight] = []
        self._weights: ray.ObjectRef[Any] | None = None
        self._version = 0  # of these weights
        self.restarts = 0

    @property
    def size(self) -> int:
        """Workers alive."""
        return len(self._workers)

    @property
    def games_in_flight(self) -> int:
        """Games being played."""
        return sum(worker.load for worker in self._workers)

    def wait_ready(self) -> None:
        """Wait until every actor has loaded its model.

        Raises:
            RunError: not within ``rollout.start_timeout_s``, or an actor failed; says what to look at.
        """
        refs = [worker.actor.ready.remote() for worker in self._workers]
        ready, waiting = ray.wait(refs, num_returns=len(refs), timeout=self._settings.start_timeout_s)
        if waiting:
            raise RunError(
                f"{len(waiting)} of {len(refs)} rollout actors were not ready after "
                f"{self._settings.start_timeout_s:.0f} s; are there CPUs and memory for rollout.actors = {len(refs)}? "
                "(rollout.start_timeout_s allows more time)"
            )
        for ref in ready:
            try:
                ray.get(ref)
            except RayTaskError as error:
                raise error.cause from None
            except RayActorError as error:
                raise RunError(f"a rollout actor {death_of(error)}") from None

    def broadcast(self, weights: ray.ObjectRef[Any], version: int) -> None:
        """Send new learner weights to every engine; later games and replacements begin with them or newer ones."""
        self._weights, self._version = weights, version
        for worker in self._workers:
            self._swaps[worker.actor.swap.remote(weights)] = worker

    def has_room(self, games: int) -> bool:
        """Whether some worker may start ``games`` more."""
        return not self._lost and self._least_loaded(games) is not None

    def start(self, block: LineupBlock, members: Sequence[Member]) -> None:
        """Begin a block on the least loaded worker; ``has_room`` must hold."""
        worker = self._least_loaded(block.num_generations)
        assert worker is not None, "has_room was not asked"
        self._launch(worker, block, members)

    def poll(self, others: Sequence[ray.ObjectRef[Any]], timeout_s: float) -> PoolEvents:
        """Wait up to ``timeout_s`` for anything to finish: blocks, swaps, or one of ``others``.

        Raises:
            RunError: more actors died than ``rollout.max_replacements``.
        """
        for flight in self._lost[:]:
            worker = self._least_loaded(flight.block.num_generations)
            if worker is not None:
                self._lost.remove(flight)
                self._launch(worker, flight.block, flight.members)
        refs = [*others, *self._flights, *self._swaps]
        events = PoolEvents()
        if not refs:
            time.sleep(min(timeout_s, 0.05))
            return events
        first, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        # Whatever else is ready by now comes along.
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0) if first else ([], [])
        mine = set(others)
        for ref in ready:
            if ref in mine:
                events.other.append(ref)
            else:
                self._collect(ref, events)
        # Only now: a block may have finished long before anybody looked.
        self._replace_stuck()
        return events

    def evaluate(
        self, games: Sequence[EvaluationGame], progress: Callable[[int], None], timeout_s: float
    ) -> list[EvaluationResult]:
        """Play evaluation games on all workers; ``progress`` hears how many more are done.

        Raises:
            RunError: nothing finished within ``timeout_s``, or more actors died than ``rollout.max_replacements``.
        """
        chunks = [list(games[at : at + EVALUATION_CHUNK]) for at in range(0, len(games), EVALUATION_CHUNK)]
        flights: dict[ray.ObjectRef[Any], tuple[int, _Worker]] = {}

        def send(number: int) -> None:
            worker = self._workers[number % self.size]
            flights[worker.actor.play_evaluation.remote(chunks[number], self._version)] = number, worker

        for number in range(len(chunks)):
            send(number)
        results: dict[int, list[EvaluationResult]] = {}
        while flights:
            ready, _ = ray.wait(list(flights), num_returns=1, timeout=timeout_s)
            if not ready:
                raise RunError(f"no evaluation game finished within {timeout_s:.0f} s (rollout.block_timeout_s)")
            number, worker = flights.pop(ready[0])
            try:
                results[number] = ray.get(ready[0])
            except RayTaskError as error:
                raise error.cause from None
            except RayActorError as error:
                self._replace(worker, death_of(error))
                send(number)  # the same games: they are seeded
                continue
            progress(len(results[number]))
        return [result for number in sorted(results) for result in results[number]]

    def stats(self) -> dict[str, float]:
        """The engines' counters, summed over the workers that answer within ten seconds."""
        refs = [worker.actor.stats.remote() for worker in self._workers]
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=10.0)
        total: dict[str, float] = {}
        for ref in ready:
            try:
                for name, value in ray.get(ref).items():
                    total[name] = total.get(name, 0.0) + value
            except RayActorError:
                continue  # it is replaced at the next poll
        return total

    def close(self) -> None:
        """End every actor."""
        for worker in self._workers:
            ray.kill(worker.actor)
        self._workers.clear()
        self._flights.clear()
        self._swaps.clear()

    def _least_loaded(self, games: int) -> _Worker | None:
        worker = min(self._workers, key=lambda candidate: candidate.load)
        fits = worker.load == 0 or worker.load + games <= self._settings.games_per_actor
        return worker if fits else None

    def _launch(self, worker: _Worker, block: LineupBlock, members: Sequence[Member]) -> None:
        worker.load += block.num_generations
        deadline = time.monotonic() + self._settings.block_timeout_s
        ref = worker.actor.play_block.remote(block, list(members), self._version)
        self._flights[ref] = _Flight(block, members, worker, deadline)

    def _collect(self, ref: ray.ObjectRef[Any], events: PoolEvents) -> None:
        flight = self._flights.pop(ref, None)
        worker = flight.worker if flight else self._swaps.pop(ref, None)
        if worker is None:
            return  # it belonged to a worker that was replaced meanwhile
        try:
            value = ray.get(ref)
        except RayActorError as error:
            if flight:
                self._lost.append(flight)
            self._replace(worker, death_of(error))
            return
        except RayTaskError as error:
            # The actor lives but refused: a bug or bad weights; playing on would repeat it.
            raise error.cause from None
        if flight:
            worker.load -= flight.block.num_generations
            events.blocks.append(value)
        else:
            events.swap_seconds.append(float(value))

    def _replace_stuck(self) -> None:
        now = time.monotonic()
        for flight in list(self._flights.values()):
            if flight.deadline < now and flight.worker in self._workers:
                limit = self._settings.block_timeout_s
                self._replace(flight.worker, f"{flight.block.block_id} was not played within {limit:.0f} s")

    def _replace(self, worker: _Worker, reason: str) -> None:
        if worker not in self._workers:
            return  # several of its calls failed at once
        self.restarts += 1
        if self.restarts > self._settings.max_replacements:
            raise RunError(
                f"rollout actors died {self.restarts} times (rollout.max_replacements); the last one: {reason}"
            )
        ray.kill(worker.actor)
        for ref, flight in list(self._flights.items()):
            if flight.worker is worker:
                self._lost.append(flight)
                del self._flights[ref]
        self._swaps = {ref: owner for ref, owner in self._swaps.items() if owner is not worker}
        fresh = _Worker(self._spawn())
        self._workers[self._workers.index(worker)] = fresh
        if self._weights is not None:
            self._swaps[fresh.actor.swap.remote(self._weights)] = fresh
