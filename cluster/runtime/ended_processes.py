"""Watches the processes of ended actors until they are gone; until then they hold GPU memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import psutil
import ray
from ray import ObjectRef
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

UNKNOWN_PROCESSES_S = 5.0  # wait for an actor that ended before it reported its processes
TASK_START_S = 20.0  # for Ray to start the task that looks for processes
Ref: TypeAlias = ObjectRef[Any]


@dataclass(frozen=True, slots=True)
class ProcessLocation:
    """The node and the processes of an actor."""

    node: str  # Ray's id
    pids: tuple[int, ...]  # the actor's process and its descendants, such as its engine's


def process_location(_actor: object) -> ProcessLocation:
    """Return the location of the calling actor; run it with ``actor.__ray_call__``."""
    children = psutil.Process().children(recursive=True)
    return ProcessLocation(ray.get_runtime_context().get_node_id(), (os.getpid(), *(child.pid for child in children)))


class EndedProcesses:
    """The processes of killed or dead actors, watched from the first call of ``gone``.

    Ray reports an actor dead before its process ends, and does not track the processes that the actor started, so a
    task on its node looks for them. Processes started after the actor reported its location are missed. If it ended
    before it reported, the watch just lasts ``UNKNOWN_PROCESSES_S``.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._locations: list[Ref] = []  # not watched yet
        self._watches: list[tuple[Ref | None, float]] = []  # the task that looks, and time.monotonic() of giving up

    def add(self, location: Ref) -> None:
        """Add an actor by the reference to its ``ProcessLocation``, which may fail or never resolve."""
        self._locations.append(location)

    def gone(self) -> tuple[bool, list[str]]:
        """Return whether all are gone or given up, and a message for each actor that this call gives up."""
        watches = [*self._watches, *map(self._watch, self._locations)]
        self._locations, self._watches = [], []
        messages = []
        for task, deadline in watches:
            left = None if task is None else _processes_found(task)
            if left:
                messages.append(f"processes {left} have not ended within {self._limit_s:g} s (rollout.swap_timeout_s)")
            elif left is None and time.monotonic() <= deadline:
                self._watches.append((task, deadline))
            elif left is None and task is not None:
                messages.append("processes could not be looked for on their node")
        return not self._watches, messages

    def _watch(self, location: Ref) -> tuple[Ref | None, float]:
        known = known_location(location)
        if known is None:
            return None, time.monotonic() + UNKNOWN_PROCESSES_S
        on_node = NodeAffinitySchedulingStrategy(known.node, soft=False)
        task = ray.remote(processes_left).options(num_cpus=0, max_retries=0, scheduling_strategy=on_node)
        return task.remote(known.pids, self._limit_s), time.monotonic() + TASK_START_S + self._limit_s


def _processes_found(task: Ref) -> list[int] | None:
    """Return the processes that a task has found running; none if its node is gone, None without an answer yet."""
    ready, _ = ray.wait([task], timeout=0)
    try:
        return list(ray.get(task)) if ready else None
    except RayError:
        return []


def processes_left(pids: Sequence[int], timeout_s: float) -> list[int]:
    """Wait until these processes have ended; return those that still run after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def lost_with_its_node(location: Ref, error: RayError) -> bool:
    """Whether an actor died because its node went away, as nodes on the spot market do."""
    if getattr(error, "preempted", False) or "node has died" in str(error):
        return True
    known = known_location(location)
    return known is not None and not any(node["Alive"] and node["NodeID"] == known.node for node in ray.nodes())


def known_location(location: Ref) -> ProcessLocation | None:
    """Return where an actor runs, without waiting; None if it has not reported that, or died before it did."""
    known, _ = ray.wait([location], timeout=0)
    try:
        return ray.get(location) if known else None
    except RayError:
        return None


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)  # a zombie holds no memory
    except psutil.NoSuchProcess:
        return False
