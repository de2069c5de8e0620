"""What a fault works with, and what it leaves: the run under drill, and the description of a caused fault."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import psutil

from cluster.drill.endings import Ending
from cluster.drill.external_server import ExternalServer
from cluster.drill.replay_clients import ReplayClients
from cluster.drill.training_process import DrillFailedError, TrainingProcess
from cluster.runs.folder import RunFolder
from cluster.runtime.actor_env import LEARNER_RANK
from cluster.runtime.replay.servers import embedded_folders, running_urls
from services.settings import RedisSettings

Reaction = Literal["goes on", "starts itself again", "is started again"]

PROCESS_OF_LEARNER = "ray::Learner"  # begins the titles of its processes
CONDITION_TIMEOUT_S = 120.0  # until a fault is possible, for example until an episode waits


@dataclass(slots=True)
class DrillContext:
    """The run that faults are caused in."""

    training: TrainingProcess
    folder: RunFolder
    rng: random.Random
    checkpoint_every: int  # updates
    block_size: int  # episodes of a block
    stopped_s: float  # longer than the run's time limits
    redis: RedisSettings = field(default_factory=RedisSettings)
    external: Sequence[ExternalServer] = ()  # the run's replay servers, if the run does not start them itself
    damaged: set[str] = field(default_factory=set)  # ids of the episodes that were made unreadable
    seen_stored: set[str] = field(default_factory=set)  # episodes that were seen in the server before a fault

    def store(self) -> ReplayClients:
        """Connect to the running replay servers. Raises DrillFailedError if one does not run."""
        urls = tuple(each.url for each in self.external) or running_urls(self.redis, self.folder.redis)
        if not urls:
            raise DrillFailedError(f"no replay server runs in {self.folder.redis}")
        return ReplayClients(urls, self.folder.run_id)

    def one(self, title: str) -> psutil.Process:
        """A random process of the run with ``title`` in its command line; waits for one."""
        self.training.wait(lambda: bool(self.training.members(title)), f"process called {title}", CONDITION_TIMEOUT_S)
        return self.rng.choice(self.training.members(title))

    def rank(self, number: int) -> psutil.Process:
        """The learner's process of this rank; waits for it."""

        def found() -> list[psutil.Process]:
            return [process for process in self.training.members(PROCESS_OF_LEARNER) if _rank_of(process) == number]

        what = f"process {number} of the learner"
        self.training.wait(lambda: bool(found()), what, CONDITION_TIMEOUT_S)
        return found()[0]

    def server(self) -> psutil.Process:
        """A random replay server's process, if it is one of the run's; a stale file may have another process's id."""
        folder = self.rng.choice(embedded_folders(self.redis, self.folder.redis))
        pid = int(json.loads((folder / "server.json").read_text())["pid"])
        found = [process for process in self.training.family() if process.pid == pid]
        if not found:
            raise DrillFailedError(f"the replay server, process {pid} in {folder}, is not one of the run's")
        return found[0]

    def note_stored(self) -> None:
        """Note the episodes that the server has now; it must not lose one without a trace."""
        with self.store() as store:
            self.seen_stored |= store.stored()


def _rank_of(process: psutil.Process) -> int | None:
    with suppress(psutil.Error, ValueError):
        return int(process.environ()[LEARNER_RANK])
    return None


@dataclass(slots=True)
class CausedFault:
    """A fault that was caused."""

    what: str  # for messages
    victims: list[psutil.Process] = field(default_factory=list)  # that must be gone when the run has recovered
    poison: int = 0  # entries that the run must set aside
    ending: Ending | None = None  # if the fault asked the run to end
