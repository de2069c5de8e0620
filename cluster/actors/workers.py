"""What the driver knows of each rollout actor: what it plays, which weights it has, whether it is awake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ray import ObjectRef
from ray.actor import ActorHandle

Ref: TypeAlias = ObjectRef[Any]
Step = Literal["load", "swap", "sleep", "wake"]


@dataclass(slots=True, eq=False)
class Job:
    """Games that any worker may play, and play again after another's death: they are seeded."""

    name: str
    games: int  # of the worker's seats; 0: evaluation games, which are not counted
    send: Callable[[ActorHandle, int], Ref]  # to an actor that has the weights of this version
    done: Callable[[Any], None]
    timeout_s: float
    overdue: int = 0  # workers that were replaced because it took too long

    @property
    def evaluates(self) -> bool:
        """Whether these are evaluation games."""
        return self.games == 0


@dataclass(slots=True, eq=False)
class Worker:
    """One rollout actor. It is asked to take one step (load, swap, sleep, wake) at a time, and plays jobs besides."""

    slot: int  # its place in the cluster, which its replacement takes over
    actor: ActorHandle
    loaded: bool = False
    awake: bool = True
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
