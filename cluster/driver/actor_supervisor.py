"""Supervision of rollout actors: takes them through their steps, and replaces those that die, hang or fail."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

from cluster.broadcast.broadcaster import Broadcaster
from cluster.configs.sections import RolloutSettings
from cluster.driver.pending_placements import PendingPlacements
from cluster.driver.rollout_worker import Call, Goal, Job, JobQueue, PoolEvents, Worker, step_limits
from cluster.errors import LateError, RunError
from cluster.runtime.ended_processes import EndedProcesses, Ref, lost_with_its_node
from cluster.runtime.placement import FurtherPlace, Slot
from cluster.runtime.ray_calls import cause_of_death, check_waiting, loss_of, never_away, wait_for_all
from grpo_core.errors import one_line

MAX_OVERDUE = 3  # workers late with the same job before the run ends
MAX_FAILED = 3  # workers whose engine could not play the same job before the run ends


class Supervisor:
    """Manages the weights, replacement and number of workers; each step and each job has a time limit."""

    def __init__(
        self,
        spawn: Callable[[Slot], ActorHandle],
        settings: RolloutSettings,
        republish: Callable[[], Ref] | None = None,
        further: Callable[[], FurtherPlace] | None = None,
        away_s: Callable[[], float] = never_away,
    ) -> None:
        """Start the actors; ``spawn`` makes that of a slot: ``0 <= slot < rollout.actors``, or a further place.

        ``republish`` returns a new reference to the newest weights after one was lost; None: the old one is resent.
        ``further`` asks the cluster for room for one more actor; None: there are always ``rollout.actors``. ``away_s``
        returns the seconds so far in which the time limits stood still, because the replay server was away.
        """
        self.restarts = 0  # workers replaced
        self.swap_failures: Counter[str] = Counter()  # by cause: died, timed_out, refused, lost
        self._spawn = spawn
        self._settings = settings
        self._republish = republish
        self._placements = None if further is None else PendingPlacements(further, settings.node_timeout_s)
        self._away_s = away_s
        self._stood_s = away_s()  # of these seconds, those that calls under way were given more
        self._limits = step_limits(settings)
        # An actor that waits in vain for its node's copy still has time to fetch the weights itself.
        self._receive_s = settings.swap_timeout_s / 2
        self._broadcaster = Broadcaster(self._receive_s)
        self._goal = Goal()
        self._workers: list[Worker] = []
        self._queue = JobQueue(settings.games_per_actor)
        self._events = PoolEvents()
        self._counters: defaultdict[str, float] = defaultdict(float)  # of all engines, also those that have ended
        self._failures = 0  # replaced workers that did not go down with their node
        self._vacant: list[Slot] = []  # to be filled after the rest
        self._ended = EndedProcesses(settings.swap_timeout_s)
        for slot in range(settings.actors):
            self._add(slot)

    @property
    def size(self) -> int:
        """Number of live workers."""
        return len(self._workers)

    @property
    def ready(self) -> int:
        """Number of workers that accept jobs: they have loaded their engine and are not leaving."""
        return sum(worker.accepts_jobs for worker in self._workers)

    @property
    def pending(self) -> int:
        """Number of requested workers that the cluster has no room for yet."""
        return 0 if self._placements is None else len(self._placements)

    @property
    def games_in_flight(self) -> int:
        """Number of training games given to workers."""
        return sum(worker.games for worker in self._workers)

    @property
    def replacements_left(self) -> int:
        """Number of workers that may still fail before the run ends; a loss with the node does not count."""
        return max(0, self._settings.max_replacements - self._failures)

    def wait_ready(self) -> None:
        """Wait until every actor has loaded its engine.

        Raises LateError if this takes longer than ``rollout.start_timeout_s``, RunError if an actor's constructor
        raised, LostError if one died: it is not replaced, because at the first start the user should see what is wrong.
        """
        refs = [ref for worker in self._workers for ref in worker.calls]
        ready, waiting = wait_for_all(refs, self._settings.start_timeout_s, self._away_s)
        for ref in ready:
            try:
                ray.get(ref)
            except RayTaskError as error:
                raise error.cause from None
            except RayActorError as error:
                raise loss_of("a rollout actor", error) from None
        if waiting:
            raise LateError(
                f"{len(waiting)} of {len(refs)} rollout actors were not ready after "
                f"{self._settings.start_timeout_s:g} s; are there CPUs and memory for rollout.actors = {len(refs)}? "
                "(rollout.start_timeout_s allows more time)"
            )
        for ref in ready:
            self._collect(ref)

    def resize(self, wanted: int) -> None:
        """Add workers as soon as the cluster has room, or remove them after their games; ``rollout.actors`` stay."""
        assert self._placements is not None, "there is nowhere to take further actors from"
        surplus = self.size - sum(worker.leaving for worker in self._workers) + self.pending - wanted
        leaving = [worker for worker in self._workers if worker.leaving and worker.step != "leave"]
        for worker in leaving[: max(0, -surplus)]:
            worker.leaving = False
            surplus += 1
        if surplus < 0:
            self._placements.ask(-surplus)
        surplus -= self._placements.cancel(max(0, surplus))
        further = [w for w in self._workers if isinstance(w.slot, FurtherPlace) and not w.leaving]
        further.sort(key=lambda worker: (worker.loaded, worker.games))
        for worker in further[: max(0, surplus)]:
            worker.leaving = True
            self._queue.put_back(worker.waiting)
            worker.waiting = []
            self._advance(worker)

    def broadcast(self, weights: Ref, version: int) -> None:
        """Send new learner weights to every engine, and end a rest; jobs begin with these weights or newer ones."""
        nodes = {worker.node for worker in self._workers if worker.node is not None}
        copies = self._broadcaster.send(weights, nodes)
        self._events.notices += self._broadcaster.notices()
        self._goal = Goal(weights, version, copies=dict(copies), receive_s=self._receive_s)
        while self._vacant:
            self._add(self._vacant.pop())
        self._advance_all()

    def rest(self) -> bool:
        """Ask all engines to free their GPU and hold their games until the next broadcast; return whether all have.

        Call it again between polls. The time limits of jobs stop meanwhile. A worker that does not answer is ended;
        the rest then waits at most ``rollout.swap_timeout_s`` for its processes to free the GPU, after which a notice
        names them. Its replacement starts with the broadcast.
        """
        self._goal.resting = True
        self._advance_all()
        gone, overdue = self._ended.gone()
        self._events.notices += [
            f"a rollout actor was ended, but its {text}; its GPU may not be free" for text in overdue
        ]
        return gone and not any(worker.awake for worker in self._workers)

    def close(self) -> None:
        """End every actor."""
        for worker in list(self._workers):
            self._dismiss(worker)
        if self._placements is not None:
            self._placements.cancel(len(self._placements))
        self._broadcaster.close()

    def _advance_all(self) -> None:
        for worker in list(self._workers):  # one that leaves may go here
            self._advance(worker)

    def _advance(self, worker: Worker) -> None:
        if worker.leaving and not worker.loaded and not worker.jobs:
            self._dismiss(worker)
        else:
            worker.advance(self._goal)

    def _wait(self, others: Sequence[Ref], timeout_s: float) -> list[Ref]:
        """Wait until a reference is ready; return those of ``others`` that are.

        Raises LostError if Ray is gone.
        """
        check_waiting()
        places = [] if self._placements is None else self._placements.refs
        refs = [*others, *places, *(ref for worker in self._workers for ref in worker.calls)]
        if not refs:
            time.sleep(min(timeout_s, 0.05))
            return []
        first, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        # Everything else that is ready by now is handled too.
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0) if first else ([], [])
        mine = set(others)
        for ref in ready:
            if self._placements is not None and (place := self._placements.arrived(ref)) is not None:
                self._add(place)
            elif ref not in mine:
                self._collect(ref)
        return [ref for ref in ready if ref in mine]

    def _collect(self, ref: Ref) -> None:
        worker = next((worker for worker in self._workers if ref in worker.calls), None)
        if worker is None:
            return  # it was replaced meanwhile
        call = worker.calls.pop(ref)
        try:
            value = ray.get(ref)
        except RayTaskError as error:  # first, because one that reports another actor's death is both
            self._handle_failure(worker, call, error.cause)
        except RayError as error:
            with_node = lost_with_its_node(worker.location, error)
            self._replace(worker, cause_of_death(error), "died", with_node=with_node)
        else:
            self._handle_result(worker, call, value)

    def _handle_result(self, worker: Worker, call: Call, value: Any) -> None:
        if isinstance(call.what, Job):
            worker.finish_job(call.what, value)
        elif call.what == "leave":
            self._count(worker, dict(value))
            self._dismiss(worker)
        else:
            if call.what == "swap":
                self._events.swap_seconds.append(float(value))
            worker.finish_step(call)
            self._advance(worker)

    def _handle_failure(self, worker: Worker, call: Call, cause: BaseException) -> None:
        """Handle an error that a live actor raised."""
        # Imported here because the second one imports torch.
        from services.inference.engine import EngineError
        from services.weights.payload import WeightsError

        what, reason = call.what, one_line(cause)
        refused = isinstance(cause, (EngineError, WeightsError))
        if what == "load":
            self._replace(worker, f"could not start: {reason}")
        elif what == "swap" and isinstance(cause, RayActorError):
            raise loss_of("the learner", cause) from None
        elif what == "swap" and isinstance(cause, RayError):
            if self._republish is not None and call.weights is self._goal.weights:
                self._goal.weights, self._goal.copies = self._republish(), {}
            self._swap_again(worker, "lost", f"could not fetch weights of version {call.version}: {reason}")
        elif what == "swap" and refused:
            self._swap_again(worker, "refused", f"refused weights of version {call.version}: {reason}")
        elif what in ("sleep", "wake") and refused:
            self._replace(worker, f"could not {what}: {reason}")
        elif isinstance(what, Job) and isinstance(cause, EngineError):
            what.failed += 1
            reason = f"could not play {what.name}: {reason}"
            if what.failed >= MAX_FAILED:  # no engine can, for instance because a prompt does not fit
                raise RunError(f"{what.failed} rollout actors, one after another, {reason}") from None
            self._replace(worker, reason)
        else:
            raise cause from None  # a bug, which would recur

    def _swap_again(self, worker: Worker, failure: str, reason: str) -> None:
        """Send the newest weights again to an engine that kept its old ones; replace it if that fails too."""
        self.swap_failures[failure] += 1
        worker.failed_swaps += 1
        if worker.node is not None:
            self._goal.copies.pop(worker.node, None)  # the second time it takes them from the learner's node
        worker.step = None
        if worker.failed_swaps > 1:
            self._replace(worker, f"{reason} (for the second time)")
        else:
            self._events.notices.append(f"a rollout actor {reason}; it is sent the newest ones again")
            self._advance(worker)

    def _replace_overdue(self, *, blocks: bool) -> None:
        """Replace workers that are past a time limit, and give up places that did not come in time.

        Call it after ``_wait``, which reads answers that came in time. ``blocks``: whether block limits count too.
        """
        stood_s = self._away_s()
        for worker in self._workers if stood_s > self._stood_s else ():
            worker.prolong(stood_s - self._stood_s)
        self._stood_s = stood_s
        now = time.monotonic()
        if self._placements is not None and (late := self._placements.give_up_overdue()):
            self._events.notices.append(
                f"the cluster had no room for {late} further rollout actors within {self._settings.node_timeout_s:g} s "
                "(rollout.node_timeout_s); they are asked for again when they are still needed"
            )
        for worker in list(self._workers):
            for call in [call for call in worker.calls.values() if call.deadline < now]:
                if worker not in self._workers:
                    break
                if not isinstance(call.what, Job):
                    limit_s, message = self._limits[call.what]
                    self._replace(worker, message.format(limit_s), "timed_out")
                elif worker.awake and not self._goal.resting and (blocks or call.what.evaluates):
                    job = call.what
                    job.overdue += 1
                    reason = f"did not finish {job.name} within {job.timeout_s:g} s (rollout.block_timeout_s)"
                    if job.overdue >= MAX_OVERDUE:
                        raise RunError(f"{job.overdue} rollout actors, one after another, {reason}; allow more time")
                    self._replace(worker, reason)

    def _replace(self, worker: Worker, reason: str, failure: str | None = None, *, with_node: bool = False) -> None:
        """End the worker and start another one in its place; RunError after ``rollout.max_replacements`` failures.

        ``failure`` is the cause under which a swap under way counts as failed. ``with_node``: its node went away, so
        the actor did not fail.
        """
        if worker not in self._workers:
            return  # several of its calls failed at once
        if worker.step == "swap" and failure is not None:
            self.swap_failures[failure] += 1
        if worker.leaving and not worker.jobs:
            self._dismiss(worker)
            return
        self.restarts += 1
        self._failures += not with_node
        if self._failures > self._settings.max_replacements:
            raise RunError(
                f"rollout actors failed {self._failures} times (rollout.max_replacements); the last one {reason}"
            )
        self._queue.put_back(worker.jobs)
        self._dismiss(worker)
        self._ended.add(worker.location)
        if worker.leaving:
            self._events.notices.append(f"a rollout actor {reason}; its games are played by others")
            return
        self._events.notices.append(f"a rollout actor {reason}; it is replaced")
        if isinstance(worker.slot, FurtherPlace):
            assert self._placements is not None
            self._placements.ask(1)
        elif self._goal.resting:
            self._vacant.append(worker.slot)  # the learner has the GPU
        else:
            self._add(worker.slot, self._settings.node_timeout_s if with_node else 0.0)

    def _add(self, slot: Slot, extra_s: float = 0.0) -> None:
        self._workers.append(Worker(slot, self._spawn(slot), self._limits, extra_s))

    def _dismiss(self, worker: Worker) -> None:
        self._workers.remove(worker)
        ray.kill(worker.actor)
        if isinstance(worker.slot, FurtherPlace):
            worker.slot.give_back()

    def _count(self, worker: Worker, counters: dict[str, float]) -> None:
        for name, value in counters.items():
            self._counters[name] += value - worker.counters.get(name, 0.0)
        worker.counters = counters
