"""One rollout actor as the driver sees it: its current step, its weights and its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ray.actor import ActorHandle

from cluster.actors.messages import BlockReport
from cluster.broadcast.delivery import Delivery
from cluster.configs.sections import RolloutSettings
from cluster.runtime.ended_processes import Ref, known_location, process_location
from cluster.runtime.placement import Slot

LEAVE_TIMEOUT_S = 10.0  # for a leaving actor to report its counters
Step = Literal["load", "swap", "sleep", "wake", "leave"]
StepLimits = Mapping[Step, tuple[float, str]]


def step_limits(settings: RolloutSettings) -> StepLimits:
    """Time limit of each step in seconds, and the message about a worker that takes longer."""
    return {
        "load": (settings.start_timeout_s, "was not ready after {:g} s (rollout.start_timeout_s)"),
        "swap": (settings.swap_timeout_s, "did not take new weights within {:g} s (rollout.swap_timeout_s)"),
        "sleep": (settings.swap_timeout_s, "did not free its GPU within {:g} s (rollout.swap_timeout_s)"),
        "wake": (settings.swap_timeout_s, "did not wake up within {:g} s (rollout.swap_timeout_s)"),
        "leave": (LEAVE_TIMEOUT_S, "did not report its counters within {:g} s"),
    }


@dataclass(slots=True, eq=False)
class Job:
    """Seeded games that any worker can play, or replay after another worker's death."""

    name: str
    games: int  # seats of a worker that they take; 0: evaluation games, which are not counted
    send: Callable[[ActorHandle, int], Ref]  # (actor, version of its weights)
    done: Callable[[Any], None]
    timeout_s: float
    overdue: int = 0  # workers replaced because they took too long for it
    failed: int = 0  # workers replaced because their engine could not play it

    @property
    def evaluates(self) -> bool:
        """Whether these are evaluation games."""
        return self.games == 0


@dataclass(slots=True, eq=False)
class Call:
    """A call that a worker has not answered yet."""

    what: Step | Job
    deadline: float  # time.monotonic()
    weights: Ref | None = None  # that a swap carries
    version: int = -1  # of these weights


@dataclass(slots=True)
class Goal:
    """The state that all workers of a pool should reach."""

    weights: Ref | None = None  # the newest; None before the first
    version: int = 0  # of these weights
    resting: bool = False  # leave the GPU to the learner
    copies: dict[str, Ref] = field(default_factory=dict)  # of these weights, by the node that receives them
    receive_s: float = 0.0  # how long to wait for a copy

    def weights_for(self, node: str | None) -> Ref | Delivery:
        """What an actor on a node gets: the weights, or their copy there."""
        assert self.weights is not None
        copy = None if node is None else self.copies.get(node)
        return self.weights if copy is None else Delivery(copy, self.weights, self.receive_s)


@dataclass(slots=True)
class PoolEvents:
    """Events since the last poll."""

    blocks: list[BlockReport] = field(default_factory=list)
    swap_seconds: list[float] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)  # for the user: which actors failed, and why
    other: list[Ref] = field(default_factory=list)  # the caller's refs that are ready


class Worker:
    """A rollout actor: it takes one step at a time and plays any number of jobs.

    An actor loads its engine, then takes weights (``swap``) whenever there are newer ones. If it shares the learner's
    GPU, it also sleeps, and wakes before it takes the update's weights. Jobs begin once it has the newest weights.
    """

    def __init__(self, slot: Slot, actor: ActorHandle, limits: StepLimits, extra_s: float = 0.0) -> None:
        """Ask the new actor to load its engine; ``extra_s`` is additional time for a place that is not there yet."""
        self.slot = slot
        self.actor = actor
        self.location: Ref = actor.__ray_call__.remote(process_location)  # resolves once its engine is made
        self.loaded = False
        self.awake = True
        self.leaving = False  # it gets no more jobs and leaves after those it has
        self.step: Step | None = None  # under way
        self.version = -1  # of the newest weights it confirmed
        self.failed_swaps = 0  # in a row
        self.counters: dict[str, float] = {}  # of its engine, as last read
        self.waiting: list[Job] = []  # they begin when it is awake with the newest weights
        self.playing: list[Job] = []
        self.calls: dict[Ref, Call] = {}
        self._node: str | None = None
        self._limits = limits
        self._asleep_since = 0.0  # time.monotonic()
        self._begin("load", actor.ready.remote(), extra_s=extra_s)

    @property
    def node(self) -> str | None:
        """Ray's id of its node; None until it has loaded its engine."""
        if self._node is None and self.loaded and (known := known_location(self.location)) is not None:
            self._node = known.node
        return self._node

    @property
    def jobs(self) -> list[Job]:
        """All jobs it has; those under way come first."""
        return [*self.playing, *self.waiting]

    @property
    def games(self) -> int:
        """Number of training games it has."""
        return sum(job.games for job in self.jobs)

    @property
    def accepts_jobs(self) -> bool:
        """Whether it has loaded its engine and is not leaving."""
        return self.loaded and not self.leaving

    def can_play(self, goal: Goal) -> bool:
        """Whether a job could begin at once."""
        current = goal.weights is not None and self.version >= goal.version
        return current and self.step is None and self.awake and not goal.resting

    def advance(self, goal: Goal) -> None:
        """Begin the next step, or the waiting jobs, unless a step is under way."""
        if self.step is not None:
            return
        if self.leaving and not self.jobs:
            self._begin("leave", self.actor.stats.remote())
        elif goal.resting:
            if self.awake:
                self._asleep_since = time.monotonic()
                self._begin("sleep", self.actor.sleep.remote())
        elif not self.awake:
            self._begin("wake", self.actor.wake.remote())
        elif goal.weights is not None and self.version < goal.version:
            self._begin("swap", self.actor.swap.remote(goal.weights_for(self.node)), goal.weights, goal.version)
        elif self.can_play(goal):
            for job in self.waiting:
                deadline = time.monotonic() + job.timeout_s
                self.calls[job.send(self.actor, goal.version)] = Call(job, deadline)
            self.playing += self.waiting
            self.waiting = []

    def finish_step(self, call: Call) -> None:
        """Record that the step of this call has succeeded."""
        if call.what == "load":
            self.loaded = True
        elif call.what == "swap":
            self.version, self.failed_swaps = call.version, 0
        elif call.what == "sleep":
            self.awake = False
        elif call.what == "wake":
            self.awake = True
            slept_s = time.monotonic() - self._asleep_since
            for other in self.calls.values():
                other.deadline += slept_s
        self.step = None

    def finish_job(self, job: Job, result: Any) -> None:
        """Deliver the result of a job."""
        self.playing.remove(job)
        job.done(result)
        for call in self.calls.values() if job.evaluates else ():
            # Parts of an evaluation wait for each other's seats: one that ended shows that the actor plays.
            if isinstance(call.what, Job) and call.what.evaluates:
                call.deadline = time.monotonic() + call.what.timeout_s

    def prolong_jobs(self, seconds: float) -> None:
        """Give all jobs that it plays more time."""
        for call in self.calls.values():
            if isinstance(call.what, Job):
                call.deadline += seconds

    def prolong(self, seconds: float) -> None:
        """Give all calls that it has not answered more time."""
        for call in self.calls.values():
            call.deadline += seconds

    def _begin(self, step: Step, ref: Ref, weights: Ref | None = None, version: int = -1, extra_s: float = 0.0) -> None:
        self.step = step
        self.calls[ref] = Call(step, time.monotonic() + self._limits[step][0] + extra_s, weights, version)


class JobQueue:
    """Jobs without a worker, and the choice of a worker for each."""

    def __init__(self, games_per_actor: int) -> None:
        self._games_per_actor = games_per_actor
        self._jobs: list[Job] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._jobs)

    def add(self, *jobs: Job) -> None:
        """Put jobs at the end."""
        self._jobs.extend(jobs)

    def put_back(self, jobs: list[Job]) -> None:
        """Put jobs taken from a worker at the front."""
        self._jobs[:0] = jobs

    def has_room(self, workers: list[Worker], games: int) -> bool:
        """Whether some worker could start so many more games."""
        return self._least_loaded(workers, games) is not None

    def place(self, workers: list[Worker], goal: Goal) -> None:
        """Give each job to a worker with room; idle workers take over jobs that wait for another worker's weights."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            worker = None if goal.resting else self._choose(workers, job)
            if worker is None:
                self._jobs.append(job)
            else:
                worker.waiting.append(job)
        for idle in [worker for worker in workers if worker.accepts_jobs and not worker.jobs and worker.can_play(goal)]:
            for other in workers:
                while other.waiting and not other.can_play(goal) and self._fits(idle, other.waiting[0].games):
                    idle.waiting.append(other.waiting.pop(0))

    def _choose(self, workers: list[Worker], job: Job) -> Worker | None:
        if not job.evaluates:
            return self._least_loaded(workers, job.games)
        able = [worker for worker in workers if worker.accepts_jobs]
        return min(able, key=lambda worker: len(worker.jobs), default=None)

    def _least_loaded(self, workers: list[Worker], games: int) -> Worker | None:
        able = [worker for worker in workers if worker.accepts_jobs]
        worker = min(able, key=lambda candidate: candidate.games, default=None)
        return worker if worker is not None and self._fits(worker, games) else None

    def _fits(self, worker: Worker, games: int) -> bool:
        return worker.games == 0 or worker.games + games <= self._games_per_actor
