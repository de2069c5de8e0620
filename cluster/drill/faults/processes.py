"""Faults of the run's processes: killed, stopped or asked to end, also while they write a checkpoint."""

from __future__ import annotations

import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from cluster.drill.endings import end_run
from cluster.drill.faults.context import CONDITION_TIMEOUT_S, CausedFault, DrillContext
from cluster.drill.training_process import DrillFailedError, kill, runs
from grpo_core.checkpoints.folders import checkpoint_versions

CHECKPOINT_POLL_S = 0.001  # a checkpoint of a small policy is written in some milliseconds
LEARNER = "LearnerActor"  # in the title of its process
CONTROL_SERVICE = "gcs_server"  # Ray's
NODE_MANAGER = "raylet/raylet"  # Ray's, in the path of its program


def send(title: str | None, number: signal.Signals, context: DrillContext) -> CausedFault:
    """Send a signal to a process called ``title``; None: to the replay server."""
    victim = context.server() if title is None else context.one(title)
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(number)
    return CausedFault(f"{title or 'server'} {victim.pid}", [victim])


def send_to_rank(rank: int, number: signal.Signals, context: DrillContext) -> CausedFault:
    """Send a signal to one of the learner's processes."""
    victim = context.rank(rank)
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(number)
    return CausedFault(f"process {rank} of the learner {victim.pid}", [victim])


def kill_service(title: str, context: DrillContext) -> CausedFault:
    """Kill a process of Ray that its others depend on."""
    victim = context.one(title)
    kill(victim)
    return CausedFault(f"{Path(title).name} {victim.pid}", [victim])


def end(number: signal.Signals, to_all: bool, context: DrillContext) -> CausedFault:
    """Ask the run to end, and start it again."""
    driver = context.training.driver
    ending = end_run(context.training, number, to_all=to_all)
    context.training.start()
    what = f"{number.name} to {'every process' if to_all else 'the driver'} {driver.pid}"
    return CausedFault(f"{what}, gone after {ending.seconds:g} s", ending=ending)


def kill_driver(context: DrillContext) -> CausedFault:
    """Kill the driver, and start the run again as a job manager does."""
    family = context.training.family()
    kill(context.training.driver)
    context.training.finish(CONDITION_TIMEOUT_S)
    what = f"driver {context.training.driver.pid}"
    context.training.start()
    return CausedFault(what, family)


def stop_driver(context: DrillContext) -> CausedFault:
    """Stop the driver for longer than its time limits."""
    driver = context.training.driver
    driver.send_signal(signal.SIGSTOP)
    time.sleep(context.stopped_s)
    driver.send_signal(signal.SIGCONT)
    return CausedFault(f"driver {driver.pid}, for {context.stopped_s:g} s")


def leave_half_a_checkpoint(context: DrillContext) -> CausedFault:
    """Kill the learner while it writes a checkpoint; if that was too late, leave a truncated copy as the next one."""
    learner, checkpoints = context.one(LEARNER), context.folder.checkpoints
    deadline = time.monotonic() + CONDITION_TIMEOUT_S
    while not any(checkpoints.glob(".*.partial-*")):
        if time.monotonic() > deadline or not runs(learner):
            raise DrillFailedError(f"the learner began no checkpoint within {CONDITION_TIMEOUT_S:g} s")
        time.sleep(CHECKPOINT_POLL_S)
    kill(learner)
    newest = checkpoint_versions(context.folder.path)[-1]
    half = checkpoints / str(newest + context.checkpoint_every)
    if not half.exists():
        copy_half(checkpoints / str(newest), half)
    return CausedFault(f"{LEARNER} {learner.pid}, and half of checkpoint {half.name}", [learner])


def copy_half(whole: Path, half: Path) -> None:
    """Copy a checkpoint with the first half of its weights."""
    shutil.copytree(whole, half)
    weights = half / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size // 2)
