"""Rollout actors kept at work: taken through their steps, replaced when they die, hang, or their engine fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

from cluster.actors.messages import BlockReport
from cluster.configs.schema import RolloutSettings
from cluster.driver.pending_placements import PendingPlacements
from cluster.driver.worker import Call, Job, Ref, Step, TerminationWatch, Worker, find_home, lost_with_its_node
from cluster.errors import LateError, RunError
from cluster.runtime.placement import FurtherPlace, Slot
from cluster.runtime.ray_calls import cause_of_death, loss_of

MOST_OVERDUE = 3  # actors replaced because of one and the same job, before the job is to blame
MOST_FAILED = 3  # likewise, of those whose engine could not play it
LEAVE_TIMEOUT_S = 10.0  # for an actor that may go to tell what it counted


@dataclass(slots=True)
class PoolEvents:
    """What happened since the last look."""

    blocks: list[BlockReport] = field(default_factory=list)
    swap_seconds: list[float] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)  # for the user: which actors failed, and why
    other: list[Ref] = field(default_factory=list)  # refs of the caller that are ready
    left: list[tuple[Worker, dict[str, float]]] = field(default_factory=list)  # with their last counters


class Crew:
    """The actors of a pool. Nothing waits for a single one: every step and every job has a time limit.

    An actor loads its engine, then takes weights (``swap``) whenever there are newer ones; where it shares the
    learner's GPU it also sleeps, and wakes before it takes the update's weights. It is asked for one of these steps at
    a time, so limits do not add up: that of a swap begins when the actor is ready for it. Jobs begin once their actor
    has the newest weights.
    """

    def __init__(
        self,
        spawn: Callable[[Slot], ActorHandle],
        settings: RolloutSettings,
        republish: Callable[[], Ref] | None,
        further: Callable[[], FurtherPlace] | None,
    ) -> None:
        """Start the actors; arguments as for ``WorkerPool``."""
        self._spawn = spawn
        self._settings = settings
        self._republish = republish
        self._recruits = None if further is None else PendingPlacements(further, settings.node_timeout_s)
        self._blamed = 0  # of the replaced: those that did not go down with their node
        self._vacant: list[Slot] = []  # slots to fill when the GPU is theirs again
        self._ended: list[Ref] = []  # homes of actors that were ended since somebody rested
        self._departures: list[TerminationWatch] = []  # that a rest waits for
        self._weights: Ref | None = None
        self._version = 0  # of these weights
        self._limits: dict[Step, tuple[float, str]] = {
            "load": (settings.start_timeout_s, "was not ready after {:g} s (rollout.start_timeout_s)"),
            "swap": (settings.swap_timeout_s, "did not take new weights within {:g} s (rollout.swap_timeout_s)"),
            "sleep": (settings.swap_timeout_s, "did not free its GPU within {:g} s (rollout.swap_timeout_s)"),
            "wake": (settings.swap_timeout_s, "did not wake up within {:g} s (rollout.swap_timeout_s)"),
            "leave": (LEAVE_TIMEOUT_S, "did not say within {:g} s what it had counted"),
        }
        self.calls: dict[Ref, Call] = {}
        self.workers: list[Worker] = []
        self.lost: list[Job] = []  # of actors that were replaced; to be given to others
        self.resting = False
        self.events = PoolEvents()
        self.restarts = 0
        self.swap_failures: Counter[str] = Counter()  # by cause: died, timed_out, refused, lost
        for slot in range(settings.actors):
            self._add(slot)

    def wait_ready(self) -> None:
        """Wait until every actor has loaded its engine.

        Raises:
            LateError: not within ``rollout.start_timeout_s``; says what to look at.
            LostError: an actor died. None is replaced yet: at its first start a run should hear of what is wrong.
            RunError: an actor's constructor refused.
        """
        refs = list(self.calls)
        ready, waiting = ray.wait(refs, num_returns=len(refs), timeout=self._settings.start_timeout_s)
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

    @property
    def playing(self) -> list[Worker]:
        """Those that have loaded their engine and stay: who may be given games."""
        return [worker for worker in self.workers if worker.loaded and not worker.leaving]

    @property
    def replacements_left(self) -> int:
        """Actors that may still fail before the run gives up; those that go down with their node do not count."""
        return max(0, self._settings.max_replacements - self._blamed)

    @property
    def coming(self) -> int:
        """Further actors that the cluster has no room for yet."""
        return 0 if self._recruits is None else len(self._recruits)

    def resize(self, wanted: int) -> None:
        """Have so many actors: as fast as the cluster has room for more; fewer when they have finished their games.

        Args:
            wanted: not fewer than ``rollout.actors``.
        """
        assert self._recruits is not None, "there is nowhere to take further actors from"
        surplus = len(self.workers) - sum(worker.leaving for worker in self.workers) + self.coming - wanted
        leaving = [worker for worker in self.workers if worker.leaving and worker.step != "leave"]
        for worker in leaving[: max(0, -surplus)]:
            worker.leaving = False
            surplus += 1
        if surplus < 0:
            self._recruits.ask(-surplus)
        surplus -= self._recruits.cancel(max(0, surplus))
        further = [w for w in self.workers if isinstance(w.slot, FurtherPlace) and not w.leaving]
        further.sort(key=lambda worker: (worker.loaded, worker.load))
        for worker in further[: max(0, surplus)]:
            worker.leaving = True
            self.lost += worker.waiting  # somebody else begins them
            worker.waiting = []
            self.advance(worker)

    def broadcast(self, weights: Ref, version: int) -> None:
        """Send these weights to every engine; ends a rest."""
        self._weights, self._version = weights, version
        self.resting = False
        while self._vacant:
            self._add(self._vacant.pop())
        for worker in list(self.workers):
            self.advance(worker)

    def rest(self) -> bool:
        """Ask all engines to free their GPU and to hold their games until the next broadcast; whether all have.

        Actors that were ended have freed it when their processes are gone: this is waited for, for
        ``rollout.swap_timeout_s`` at most; if that was not enough, a notice says so.
        """
        self.resting = True
        for worker in list(self.workers):
            self.advance(worker)
        self._departures += [TerminationWatch(home, self._settings.swap_timeout_s) for home in self._ended]
        self._ended = []
        self._departures = [departure for departure in self._departures if not self._over(departure)]
        return not self._departures and not any(worker.awake for worker in self.workers)

    def plays(self, worker: Worker) -> bool:
        """Whether a job may begin there at once."""
        current = self._weights is not None and worker.version >= self._version
        return current and worker.step is None and worker.awake and not self.resting

    def advance(self, worker: Worker) -> None:
        """Ask for the next thing a worker has to do, unless it is at it; call this whenever something has changed."""
        if worker.leaving and not worker.jobs and worker.step in (None, "load"):
            if worker.loaded:
                self._ask(worker, "leave", worker.actor.stats.remote())
            else:
                self._dismiss(worker)
            return
        if worker.step is not None:
            return
        if self.resting:
            if worker.awake:
                worker.asleep_since = time.monotonic()
                self._ask(worker, "sleep", worker.actor.sleep.remote())
        elif not worker.awake:
            self._ask(worker, "wake", worker.actor.wake.remote())
        elif self._weights is not None and worker.version < self._version:
            self._ask(worker, "swap", worker.actor.swap.remote(self._weights))
        elif self.plays(worker):
            for job in worker.waiting:
                deadline = time.monotonic() + job.timeout_s
                self.calls[job.send(worker.actor, self._version)] = Call(worker, job, deadline)
            worker.playing += worker.waiting
            worker.waiting = []

    def wait(self, others: Sequence[Ref], timeout_s: float) -> list[Ref]:
        """Wait until something is answered; those of ``others`` that are."""
        rooms = [] if self._recruits is None else self._recruits.refs
        refs = [*others, *rooms, *self.calls]
        if not refs:
            time.sleep(min(timeout_s, 0.05))
            return []
        first, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        # Whatever else is ready by now comes along.
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0) if first else ([], [])
        mine = set(others)
        for ref in ready:
            if self._recruits is not None and (place := self._recruits.arrived(ref)) is not None:
                self._add(place)
            elif ref not in mine:
                self._collect(ref)
        return [ref for ref in ready if ref in mine]

    def replace_overdue(self, *, blocks: bool) -> None:
        """Replace actors that are past a time limit; ``blocks``: also that of a block.

        To be asked after ``wait``: an answer may have been there long before anybody looked. Rooms for further actors
        that did not come are given up.

        Raises:
            RunError: more actors failed than ``rollout.max_replacements``, or several at the same job.
        """
        now = time.monotonic()
        if self._recruits is not None and (late := self._recruits.overdue()):
            self.events.notices.append(
                f"the cluster had no room for {late} further rollout actors within {self._settings.node_timeout_s:g} s "
                "(rollout.node_timeout_s); they are asked for again when they are still needed"
            )
        for call in list(self.calls.values()):
            worker, what = call.worker, call.what
            if call.deadline >= now or worker not in self.workers:
                continue
            if not isinstance(what, Job):
                limit, text = self._limits[what]
                self._replace(worker, text.format(limit), "timed_out")
            elif worker.awake and not self.resting and (blocks or what.evaluates):
                what.overdue += 1
                reason = f"did not finish {what.name} within {what.timeout_s:g} s (rollout.block_timeout_s)"
                if what.overdue >= MOST_OVERDUE:
                    raise RunError(f"{what.overdue} rollout actors, one after another, {reason}; allow more time")
                self._replace(worker, reason)

    def prolong(self, seconds: float) -> None:
        """Give all jobs being played more time."""
        for call in self.calls.values():
            if isinstance(call.what, Job):
                call.deadline += seconds

    def close(self) -> None:
        """End every actor."""
        for worker in self.workers:
            self._end(worker)
        self.workers.clear()
        self.calls.clear()
        if self._recruits is not None:
            self._recruits.cancel(len(self._recruits))

    def _add(self, slot: Slot, patience_s: float = 0.0) -> None:
        """``patience_s``: for room that is not there yet."""
        actor = self._spawn(slot)
        worker = Worker(slot, actor, home=actor.__ray_call__.remote(find_home))
        self.workers.append(worker)
        self._ask(worker, "load", worker.actor.ready.remote(), patience_s)

    def _ask(self, worker: Worker, step: Step, ref: Ref, patience_s: float = 0.0) -> None:
        worker.step = step
        deadline = time.monotonic() + self._limits[step][0] + patience_s
        self.calls[ref] = Call(worker, step, deadline, self._weights, self._version)

    def _collect(self, ref: Ref) -> None:
        call = self.calls.pop(ref, None)
        if call is None:
            return  # it belonged to a worker that was replaced meanwhile
        try:
            value = ray.get(ref)
        except RayTaskError as error:  # first, because one that tells of another actor's death is both
            self._failed(call, error.cause)
        except RayError as error:
            with_node = lost_with_its_node(call.worker, error)
            self._replace(call.worker, cause_of_death(error), "died", with_node=with_node)
        else:
            self._succeeded(call, value)

    def _succeeded(self, call: Call, value: Any) -> None:
        worker, what = call.worker, call.what
        if isinstance(what, Job):
            worker.playing.remove(what)
            what.done(value)
            for other in self.calls.values() if what.evaluates else ():
                # Parts of an evaluation wait for one another's seats: one that ended shows that the actor plays.
                if other.worker is worker and isinstance(other.what, Job) and other.what.evaluates:
                    other.deadline = time.monotonic() + other.what.timeout_s
            return
        if what == "leave":
            self.events.left.append((worker, dict(value)))
            self._dismiss(worker)
            return
        if what == "load":
            worker.loaded = True
        elif what == "swap":
            worker.version, worker.failures = call.version, 0
            self.events.swap_seconds.append(float(value))
        elif what == "sleep":
            worker.awake = False
        else:
            worker.awake = True
            slept = time.monotonic() - worker.asleep_since
            for other in self.calls.values():
                if other.worker is worker:
                    other.deadline += slept
        worker.step = None
        self.advance(worker)

    def _failed(self, call: Call, cause: BaseException) -> None:
        """An actor lives but raised an error."""
        # Here, because the second one brings torch along.
        from services.inference.engine import EngineError
        from services.weights.payload import WeightsError

        worker, what = call.worker, call.what
        reason = " ".join(str(cause).split())
        refused = isinstance(cause, (EngineError, WeightsError))
        if what == "load":
            self._replace(worker, f"could not start: {reason}")
        elif what == "swap" and isinstance(cause, RayActorError):
            raise loss_of("the learner", cause) from None
        elif what == "swap" and isinstance(cause, RayError):
            if self._republish is not None and call.weights is self._weights:
                self._weights = self._republish()
            self._send_again(worker, "lost", f"could not fetch weights of version {call.version}: {reason}")
        elif what == "swap" and refused:
            self._send_again(worker, "refused", f"refused weights of version {call.version}: {reason}")
        elif what in ("sleep", "wake") and refused:
            self._replace(worker, f"could not {what}: {reason}")
        elif isinstance(what, Job) and isinstance(cause, EngineError):
            what.failed += 1
            reason = f"could not play {what.name}: {reason}"
            if what.failed >= MOST_FAILED:  # no engine can, such as one asked for a prompt that does not fit
                raise RunError(f"{what.failed} rollout actors, one after another, {reason}") from None
            self._replace(worker, reason)
        else:
            # A bug; playing on would repeat it.
            raise cause from None

    def _over(self, departure: TerminationWatch) -> bool:
        try:
            return departure.over()
        except TimeoutError as error:
            self.events.notices.append(f"a rollout actor was ended, but its {error}; its GPU may not be free")
            return True

    def _send_again(self, worker: Worker, failure: str, reason: str) -> None:
        """An engine keeps its old weights: it is sent the newest once more; if that fails too, it is replaced."""
        self.swap_failures[failure] += 1
        worker.failures += 1
        worker.step = None
        if worker.failures > 1:
            self._replace(worker, f"{reason} (for the second time)")
        else:
            self.events.notices.append(f"a rollout actor {reason}; it is sent the newest ones again")
            self.advance(worker)

    def _replace(self, worker: Worker, reason: str, failure: str | None = None, *, with_node: bool = False) -> None:
        """Start another in its place.

        Args:
            worker: that is to be ended, if it is not dead.
            reason: for the user.
            failure: what became of the swap that it may be at.
            with_node: whether its node went away, for which no actor is to blame.
        """
        if worker not in self.workers:
            return  # several of its calls failed at once
        if worker.step == "swap" and failure is not None:
            self.swap_failures[failure] += 1
        if worker.leaving and not worker.jobs:
            self._dismiss(worker)
            return
        self.restarts += 1
        self._blamed += not with_node
        if self._blamed > self._settings.max_replacements:
            raise RunError(
                f"rollout actors failed {self._blamed} times (rollout.max_replacements); the last one {reason}"
            )
        self.lost += worker.jobs
        self._dismiss(worker)
        self._ended.append(worker.home)
        if worker.leaving:
            self.events.notices.append(f"a rollout actor {reason}; its games are played by others")
            return
        self.events.notices.append(f"a rollout actor {reason}; it is replaced")
        if isinstance(worker.slot, FurtherPlace):
            assert self._recruits is not None
            self._recruits.ask(1)
        elif self.resting:
            self._vacant.append(worker.slot)  # the learner has the GPU
        else:
            self._add(worker.slot, self._settings.node_timeout_s if with_node else 0.0)

    def _dismiss(self, worker: Worker) -> None:
        """End an actor; it is nobody's any more."""
        self._end(worker)
        self.calls = {ref: call for ref, call in self.calls.items() if call.worker is not worker}
        self.workers.remove(worker)

    @staticmethod
    def _end(worker: Worker) -> None:
        ray.kill(worker.actor)
        if isinstance(worker.slot, FurtherPlace):
            worker.slot.give_back()
