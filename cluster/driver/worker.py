"""What the driver knows of each rollout actor: what it plays, which weights it has, whether it is awake or gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import psutil
import ray
from ray import ObjectRef
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.runtime.placement import Slot

UNKNOWN_PROCESSES_S = 5.0  # that an ended actor gets whose processes nobody knows
WATCH_START_S = 20.0  # for Ray to start the task that looks for processes
Ref: TypeAlias = ObjectRef[Any]
Step = Literal["load", "swap", "sleep", "wake", "leave"]


@dataclass(slots=True, eq=False)
class Job:
    """Games that any worker may play, and play again after another's death: they are seeded."""

    name: str
    games: int  # of the worker's seats; 0: evaluation games, which are not counted
    send: Callable[[ActorHandle, int], Ref]  # to an actor that has the weights of this version
    done: Callable[[Any], None]
    timeout_s: float
    overdue: int = 0  # workers that were replaced because it took too long
    failed: int = 0  # workers that were replaced because their engine could not play it

    @property
    def evaluates(self) -> bool:
        """Whether these are evaluation games."""
        return self.games == 0


@dataclass(slots=True, eq=False)
class Worker:
    """One rollout actor. It is asked to take one step at a time, and plays jobs besides."""

    slot: Slot  # its place in the cluster; one of the first rollout.actors is taken over by its replacement
    actor: ActorHandle
    home: Ref  # answers with its ``ProcessLocation`` once its engine is made
    loaded: bool = False
    awake: bool = True
    leaving: bool = False  # it is given nothing more, and goes when it has finished what it has
    step: Step | None = None  # under way
    version: int = -1  # of the newest weights it confirmed
    failures: int = 0  # to take weights, in a row
    asleep_since: float = 0.0  # time.monotonic()
    waiting: list[Job] = field(default_factory=list)  # until it is awake with the newest weights
    playing: list[Job] = field(default_factory=list)
    counted: dict[str, float] = field(default_factory=dict)  # its engine's counters when last asked

    @property
    def jobs(self) -> list[Job]:
        """All it has been given, what is being played first."""
        return [*self.playing, *self.waiting]

    @property
    def load(self) -> int:
        """Training games it has been given."""
        return sum(job.games for job in self.jobs)


@dataclass(slots=True, eq=False)
class Call:
    """A call to a worker that has not answered yet: a step of its own, or a job."""

    worker: Worker
    what: Step | Job
    deadline: float  # time.monotonic()
    weights: Ref | None = None  # that a swap carries
    version: int = -1  # of these


@dataclass(frozen=True, slots=True)
class ProcessLocation:
    """Where an actor lives."""

    node: str  # Ray's id
    pids: tuple[int, ...]  # its process and those it started, such as its engine's


def find_home(_actor: object) -> ProcessLocation:
    """To be run in an actor."""
    children = psutil.Process().children(recursive=True)
    return ProcessLocation(ray.get_runtime_context().get_node_id(), (os.getpid(), *(child.pid for child in children)))


class TerminationWatch:
    """The end of the processes of an actor that was killed or died, which holds GPU memory until then.

    Ray calls an actor dead as soon as it has asked for its end, and knows nothing of processes that it had started. So
    a task on its node looks for them. What is not seen: processes that the actor started after its engine was made;
    and all of them where it was ended before that, for which ``UNKNOWN_PROCESSES_S`` has to do.
    """

    def __init__(self, home: Ref, limit_s: float) -> None:
        """Begin to look.

        Args:
            home: answers with the actor's ``ProcessLocation``, or fails, or never answers.
            limit_s: how long to wait for the processes' end.
        """
        self._limit_s = limit_s
        self._watch: Ref | None = None
        known = _home(home)
        self._deadline = time.monotonic() + (UNKNOWN_PROCESSES_S if known is None else WATCH_START_S + limit_s)
        if known is not None:
            there = NodeAffinitySchedulingStrategy(known.node, soft=False)
            task = ray.remote(processes_left).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            self._watch = task.remote(known.pids, limit_s)

    def over(self) -> bool:
        """Whether there is nothing more to wait for.

        Raises:
            TimeoutError: some processes are still there, or nobody could look; says so.
        """
        late = time.monotonic() > self._deadline
        if self._watch is None:
            return late
        ready, _ = ray.wait([self._watch], timeout=0)
        try:
            left = ray.get(self._watch) if ready else []
        except RayError:
            return True  # its node is gone
        if left:
            raise TimeoutError(f"processes {left} have not ended within {self._limit_s:g} s (rollout.swap_timeout_s)")
        if late and not ready:
            raise TimeoutError("processes could not be looked for on their node")
        return bool(ready)


def processes_left(pids: Sequence[int], timeout_s: float) -> list[int]:
    """Wait until these processes have ended; those that have not within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def lost_with_its_node(worker: Worker, error: RayError) -> bool:
    """Whether an actor died because the machine under it went away, as machines on the spot market do."""
    if getattr(error, "preempted", False) or "node has died" in str(error):
        return True
    known = _home(worker.home)
    return known is not None and not any(node["Alive"] and node["NodeID"] == known.node for node in ray.nodes())


def _home(ref: Ref) -> ProcessLocation | None:
    known, _ = ray.wait([ref], timeout=0)
    try:
        return ray.get(ref) if known else None
    except RayError:
        return None


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)  # which holds no memory any more
    except psutil.NoSuchProcess:
        return False
