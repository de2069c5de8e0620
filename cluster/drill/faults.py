"""The faults of a drill: each is a small function in one table, with what the run is expected to do about it."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import psutil

from cluster.drill.errors import BrokenPromiseError
from cluster.drill.replay_store import Store, block_of
from cluster.drill.training_process import Training, kill, runs
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import checkpoint_versions
from services.replay.server.embedded import running_url

Reaction = Literal["goes on", "starts itself again", "is started again"]

OPPORTUNITY_S = 120.0  # for what a fault needs to be there, such as an episode that waits
SHORTLY_S = 3.0  # less than the run's time limits
CONVENIENT_POLL_S = 0.001  # a checkpoint of a small policy is written in some milliseconds
LEARNER, ROLLOUT, ENGINE = "LearnerActor", "RolloutActor", "EngineCore"  # in the titles of processes


@dataclass(slots=True)
class Scene:
    """What faults work with."""

    training: Training
    folder: RunFolder
    rng: random.Random
    checkpoint_every: int  # updates
    stopped_s: float  # longer than what the run waits for
    spoiled: dict[str, str] = field(default_factory=dict)  # episodes made poison, and how
    witnessed: set[str] = field(default_factory=set)  # episodes that were seen stored before some fault

    def store(self) -> Store:
        """The server as it is now.

        Raises:
            BrokenPromiseError: there is none.
        """
        url = running_url(self.folder.redis)
        if url is None:
            raise BrokenPromiseError(f"no replay server runs in {self.folder.redis}")
        return Store(url, self.folder.run_id)

    def one(self, title: str) -> psutil.Process:
        """A process of the run, any that has ``title``; waits for one."""
        self.training.wait(lambda: bool(self.training.members(title)), f"process called {title}", OPPORTUNITY_S)
        return self.rng.choice(self.training.members(title))

    def server(self) -> psutil.Process:
        """The replay server's process, which is the run's child: an id that a file tells may be anybody's by now."""
        pid = int(json.loads((self.folder.redis / "server.json").read_text())["pid"])
        found = [process for process in self.training.family() if process.pid == pid]
        if not found:
            raise BrokenPromiseError(f"the replay server, process {pid} in {self.folder.redis}, is none of the run's")
        return found[0]

    def witness(self) -> None:
        """Note what the server holds now: it must never forget any of it, whatever it says itself in the end."""
        with self.store() as store:
            self.witnessed |= store.stored()


@dataclass(slots=True)
class Struck:
    """A fault that was caused."""

    what: str  # for people
    victims: list[psutil.Process] = field(default_factory=list)  # that must be gone when the run has got over it
    poison: int = 0  # entries that must be set aside


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    does: str
    reaction: Reaction  # what the run is expected to do
    cause: Callable[[Scene], Struck]
    updates: int = 1  # further ones that show that the run got over it


def _kill(title: str, scene: Scene) -> Struck:
    victim = scene.one(title)
    kill(victim)
    return Struck(f"{title} {victim.pid}", [victim])


def _stop(title: str, scene: Scene) -> Struck:
    victim = scene.one(title)
    victim.send_signal(signal.SIGSTOP)
    return Struck(f"{title} {victim.pid}", [victim])


def _kill_server(scene: Scene) -> Struck:
    victim = scene.server()
    kill(victim)
    return Struck(f"server {victim.pid}", [victim])


def _stop_server(scene: Scene) -> Struck:
    victim = scene.server()
    victim.send_signal(signal.SIGSTOP)
    return Struck(f"server {victim.pid}", [victim])


def _kill_driver(scene: Scene) -> Struck:
    family = scene.training.family()
    kill(scene.training.driver)
    scene.training.finish(OPPORTUNITY_S)
    what = f"driver {scene.training.driver.pid}"
    scene.training.start()
    return Struck(what, family)


def _stop_driver(scene: Scene) -> Struck:
    driver = scene.training.driver
    driver.send_signal(signal.SIGSTOP)
    time.sleep(scene.stopped_s)
    driver.send_signal(signal.SIGCONT)
    return Struck(f"driver {driver.pid}, for {scene.stopped_s:g} s")


def _fill(scene: Scene) -> None:
    """Returns when an episode was refused."""
    with scene.store() as store:
        before = store.refusals()
        store.limit_memory(1)
        scene.training.wait(lambda: store.refusals() > before, "episode that a full server refuses", OPPORTUNITY_S)


def _fill_shortly(scene: Scene) -> Struck:
    _fill(scene)
    time.sleep(SHORTLY_S)
    with scene.store() as store:
        store.limit_memory(0)
    return Struck(f"full for {SHORTLY_S:g} s after the first refusal")


def _fill_for_good(scene: Scene) -> Struck:
    _fill(scene)
    return Struck("full from the first refusal on")


def _spoil(scene: Scene) -> Struck:
    found: list[str] = []

    def spoilt() -> bool:
        with scene.store() as store:
            found.extend(filter(None, [store.spoil(scene.rng, {block_of(name) for name in scene.spoiled})]))
        return bool(found)

    scene.training.wait(spoilt, "episode that waits for the learner", OPPORTUNITY_S)
    scene.spoiled[found[0]] = "poison"
    return Struck(f"episode {found[0]}", poison=1)


def _deliver_from_the_future(scene: Scene) -> Struck:
    with scene.store() as store:
        name = store.deliver_from_the_future(scene.rng)
    scene.spoiled[name] = "future"
    return Struck(f"episode {name}", poison=1)


def _leave_half_a_checkpoint(scene: Scene) -> Struck:
    """Kill the learner while it writes one; lest that was too late, leave a truncated copy under the next number."""
    learner, checkpoints = scene.one(LEARNER), scene.folder.checkpoints
    deadline = time.monotonic() + OPPORTUNITY_S
    while not any(checkpoints.glob(".*.partial-*")):
        if time.monotonic() > deadline or not runs(learner):
            raise BrokenPromiseError(f"the learner began no checkpoint within {OPPORTUNITY_S:g} s")
        time.sleep(CONVENIENT_POLL_S)
    kill(learner)
    newest = checkpoint_versions(scene.folder.path)[-1]
    half = checkpoints / str(newest + scene.checkpoint_every)
    if not half.exists():
        _copy_half(checkpoints / str(newest), half)
    return Struck(f"{LEARNER} {learner.pid}, and half of checkpoint {half.name}", [learner])


def _copy_half(whole: Path, half: Path) -> None:
    shutil.copytree(whole, half)
    weights = half / "model.safetensors"
    with weights.open("r+b") as file:
        file.truncate(weights.stat().st_size // 2)


# Decisions made ahead serve for some updates, so that only a third one shows that games are played again.
_PLAYED_AHEAD = 3

FAULTS: Mapping[str, Fault] = {
    "rollout": Fault("kills a rollout actor", "goes on", partial(_kill, ROLLOUT), _PLAYED_AHEAD),
    "rollout-stop": Fault("stops a rollout actor for good", "goes on", partial(_stop, ROLLOUT), _PLAYED_AHEAD),
    "learner": Fault("kills the learner", "starts itself again", partial(_kill, LEARNER)),
    "learner-stop": Fault("stops the learner for good", "starts itself again", partial(_stop, LEARNER)),
    "server": Fault("kills the replay server", "starts itself again", _kill_server),
    "server-stop": Fault("stops the replay server for good", "starts itself again", _stop_server),
    "full": Fault("fills the replay server for a moment", "goes on", _fill_shortly),
    "full-stay": Fault("fills the replay server for good", "starts itself again", _fill_for_good),
    "driver": Fault("kills the driver", "is started again", _kill_driver),
    "driver-stop": Fault("stops the driver for longer than its limits", "goes on", _stop_driver),
    "poison": Fault("damages a stored episode", "goes on", _spoil),
    "future": Fault("delivers an episode of a later version", "goes on", _deliver_from_the_future),
    "checkpoint": Fault("leaves a checkpoint half written", "starts itself again", _leave_half_a_checkpoint),
}
ENGINE_FAULTS: Mapping[str, Fault] = {
    "engine": Fault("kills a vLLM engine's own process", "goes on", partial(_kill, ENGINE), _PLAYED_AHEAD),
}


def faults_of(engine: str) -> Mapping[str, Fault]:
    """All kinds that a run with this engine can suffer; the torch engine lives in its rollout actor."""
    return {**FAULTS, **ENGINE_FAULTS} if engine == "vllm" else FAULTS


def draw(kinds: list[str], count: int, rng: random.Random) -> list[str]:
    """So many kinds in random order, each as often as any other, as far as that goes."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(kinds, len(kinds))
    return drawn[:count]
