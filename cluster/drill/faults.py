"""The faults of a drill: a table of small functions, with the run's expected reactions."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import psutil

from cluster.drill.replay_client import ReplayClient, block_of
from cluster.drill.training_process import DrillFailedError, TrainingProcess, kill, runs
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import checkpoint_versions
from services.replay.server.embedded import running_url

Reaction = Literal["goes on", "starts itself again", "is started again"]

CONDITION_TIMEOUT_S = 120.0  # until a fault is possible, for example until an episode waits
BRIEF_S = 3.0  # less than the run's time limits
CHECKPOINT_POLL_S = 0.001  # a checkpoint of a small policy is written in some milliseconds
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
LEARNER, ROLLOUT, ENGINE = "LearnerActor", "RolloutActor", "EngineCore"  # in the titles of processes


@dataclass(slots=True)
class DrillContext:
    """The run that faults are caused in."""

    training: TrainingProcess
    folder: RunFolder
    rng: random.Random
    checkpoint_every: int  # updates
    stopped_s: float  # longer than the run's time limits
    damaged: dict[str, str] = field(default_factory=dict)  # unreadable episodes by id, and how each was made
    seen_stored: set[str] = field(default_factory=set)  # episodes that were seen in the server before a fault

    def store(self) -> ReplayClient:
        """Connect to the running replay server. Raises DrillFailedError if none runs."""
        url = running_url(self.folder.redis)
        if url is None:
            raise DrillFailedError(f"no replay server runs in {self.folder.redis}")
        return ReplayClient(url, self.folder.run_id)

    def one(self, title: str) -> psutil.Process:
        """A random process of the run with ``title`` in its command line; waits for one."""
        self.training.wait(lambda: bool(self.training.members(title)), f"process called {title}", CONDITION_TIMEOUT_S)
        return self.rng.choice(self.training.members(title))

    def server(self) -> psutil.Process:
        """The replay server's process, if it is one of the run's; a stale file may have another process's id."""
        pid = int(json.loads((self.folder.redis / "server.json").read_text())["pid"])
        found = [process for process in self.training.family() if process.pid == pid]
        if not found:
            raise DrillFailedError(f"the replay server, process {pid} in {self.folder.redis}, is not one of the run's")
        return found[0]

    def note_stored(self) -> None:
        """Note the episodes that the server has now; it must not lose one without a trace."""
        with self.store() as store:
            self.seen_stored |= store.stored()


@dataclass(slots=True)
class CausedFault:
    """A fault that was caused."""

    what: str  # for messages
    victims: list[psutil.Process] = field(default_factory=list)  # that must be gone when the run has recovered
    poison: int = 0  # entries that the run must set aside


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    does: str
    reaction: Reaction  # what the run is expected to do
    cause: Callable[[DrillContext], CausedFault]
    updates: int = 1  # further ones that show the recovery


def _send(title: str | None, number: signal.Signals, context: DrillContext) -> CausedFault:
    """Send a signal to a process called ``title``; None: to the replay server."""
    victim = context.server() if title is None else context.one(title)
    with suppress(psutil.NoSuchProcess):
        victim.send_signal(number)
    return CausedFault(f"{title or 'server'} {victim.pid}", [victim])


def _kill_driver(context: DrillContext) -> CausedFault:
    family = context.training.family()
    kill(context.training.driver)
    context.training.finish(CONDITION_TIMEOUT_S)
    what = f"driver {context.training.driver.pid}"
    context.training.start()
    return CausedFault(what, family)


def _stop_driver(context: DrillContext) -> CausedFault:
    driver = context.training.driver
    driver.send_signal(STOP)
    time.sleep(context.stopped_s)
    driver.send_signal(signal.SIGCONT)
    return CausedFault(f"driver {driver.pid}, for {context.stopped_s:g} s")


def _fill(for_good: bool, context: DrillContext) -> CausedFault:
    """Limit the server's memory until an episode is refused; unless for good, lift the limit a little later."""
    with context.store() as store:
        before = store.refusals()
        store.limit_memory(1)
        context.training.wait(
            lambda: store.refusals() > before, "episode that a full server refuses", CONDITION_TIMEOUT_S
        )
    if for_good:
        return CausedFault("full from the first refusal on")
    time.sleep(BRIEF_S)
    with context.store() as store:
        store.limit_memory(0)
    return CausedFault(f"full for {BRIEF_S:g} s after the first refusal")


def _damage(context: DrillContext) -> CausedFault:
    found: list[str] = []

    def damaged_one() -> bool:
        with context.store() as store:
            found.extend(filter(None, [store.damage(context.rng, {block_of(name) for name in context.damaged})]))
        return bool(found)

    context.training.wait(damaged_one, "episode that waits for the learner", CONDITION_TIMEOUT_S)
    context.damaged[found[0]] = "poison"
    return CausedFault(f"episode {found[0]}", poison=1)


def _append_later_version(context: DrillContext) -> CausedFault:
    with context.store() as store:
        name = store.append_later_version(context.rng)
    context.damaged[name] = "future"
    return CausedFault(f"episode {name}", poison=1)


def _leave_half_a_checkpoint(context: DrillContext) -> CausedFault:
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
        _copy_half(checkpoints / str(newest), half)
    return CausedFault(f"{LEARNER} {learner.pid}, and half of checkpoint {half.name}", [learner])


def _copy_half(whole: Path, half: Path) -> None:
    shutil.copytree(whole, half)
    weights = half / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size // 2)


# Episodes played ahead serve for some updates, so that only the third one shows that games are played again.
_PLAYED_AHEAD = 3

FAULTS: Mapping[str, Fault] = {
    "rollout": Fault("kills a rollout actor", "goes on", partial(_send, ROLLOUT, KILL), _PLAYED_AHEAD),
    "rollout-stop": Fault("stops a rollout actor for good", "goes on", partial(_send, ROLLOUT, STOP), _PLAYED_AHEAD),
    "learner": Fault("kills the learner", "starts itself again", partial(_send, LEARNER, KILL)),
    "learner-stop": Fault("stops the learner for good", "starts itself again", partial(_send, LEARNER, STOP)),
    "server": Fault("kills the replay server", "starts itself again", partial(_send, None, KILL)),
    "server-stop": Fault("stops the replay server for good", "starts itself again", partial(_send, None, STOP)),
    "full": Fault("fills the replay server for a moment", "goes on", partial(_fill, False)),
    "full-stay": Fault("fills the replay server for good", "starts itself again", partial(_fill, True)),
    "driver": Fault("kills the driver", "is started again", _kill_driver),
    "driver-stop": Fault("stops the driver for longer than its limits", "goes on", _stop_driver),
    "poison": Fault("damages a stored episode", "goes on", _damage),
    "future": Fault("delivers an episode of a later version", "goes on", _append_later_version),
    "checkpoint": Fault("leaves a checkpoint half written", "starts itself again", _leave_half_a_checkpoint),
}
ENGINE_FAULTS: Mapping[str, Fault] = {
    "engine": Fault("kills a vLLM engine's own process", "goes on", partial(_send, ENGINE, KILL), _PLAYED_AHEAD)
}


def faults_of(engine: str) -> Mapping[str, Fault]:
    """All kinds of faults of a run with this engine; the torch engine is in the rollout actor's process."""
    return {**FAULTS, **ENGINE_FAULTS} if engine == "vllm" else FAULTS


def draw(kinds: list[str], count: int, rng: random.Random) -> list[str]:
    """``count`` kinds in random order; each comes as often as any other, or once more."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(kinds, len(kinds))
    return drawn[:count]
