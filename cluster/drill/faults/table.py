"""All kinds of faults. A new one is a function that causes it and says what it did, and a line in a table here."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from cluster.drill.faults.context import CausedFault, DrillContext, Reaction
from cluster.drill.faults.entries import (
    append_later_version,
    append_oversized,
    damage,
    damage_block,
    write_foreign_values,
)
from cluster.drill.faults.processes import (
    CONTROL_SERVICE,
    LEARNER,
    NODE_MANAGER,
    end,
    kill_driver,
    kill_service,
    leave_half_a_checkpoint,
    send,
    send_to_rank,
    stop_driver,
)
from cluster.drill.faults.server import fill, kill_external, stop_external
from cluster.drill.settings import Engine, Server

KILL, STOP = signal.SIGKILL, signal.SIGSTOP
ROLLOUT, ENGINE = "RolloutActor", "EngineCore"  # in the titles of processes
# Episodes played ahead serve for some updates, so that only the third one shows that games are played again.
_PLAYED_AHEAD = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    does: str
    reaction: Reaction  # what the run is expected to do
    cause: Callable[[DrillContext], CausedFault]
    updates: int = 1  # further ones that show the recovery


FAULTS: Mapping[str, Fault] = {
    "rollout": Fault("kills a rollout actor", "goes on", partial(send, ROLLOUT, KILL), _PLAYED_AHEAD),
    "rollout-stop": Fault("stops a rollout actor for good", "goes on", partial(send, ROLLOUT, STOP), _PLAYED_AHEAD),
    "learner": Fault("kills the learner", "starts itself again", partial(send, LEARNER, KILL)),
    "learner-stop": Fault("stops the learner for good", "starts itself again", partial(send, LEARNER, STOP)),
    "full": Fault("fills the replay server for a moment", "goes on", partial(fill, False)),
    "driver": Fault("kills the driver", "is started again", kill_driver),
    "driver-stop": Fault("stops the driver for longer than its limits", "goes on", stop_driver),
    "gcs": Fault("kills Ray's control service", "starts itself again", partial(kill_service, CONTROL_SERVICE)),
    "raylet": Fault("kills Ray's node manager", "starts itself again", partial(kill_service, NODE_MANAGER)),
    "interrupt": Fault("interrupts the run as Ctrl-C does", "is started again", partial(end, signal.SIGINT, False)),
    "terminate": Fault("sends SIGTERM to every process", "is started again", partial(end, signal.SIGTERM, True)),
    "hang-up": Fault("sends SIGHUP to every process", "is started again", partial(end, signal.SIGHUP, True)),
    "poison": Fault("damages a stored episode", "goes on", damage),
    "block": Fault("damages every episode of a stored block", "goes on", damage_block),
    "future": Fault("delivers an episode of a later version", "goes on", append_later_version),
    "oversized": Fault("delivers an episode of 100 MB", "goes on", append_oversized),
    "foreign": Fault("writes values that are not UTF-8 into the run's keys", "goes on", write_foreign_values),
    "checkpoint": Fault("leaves a checkpoint half written", "starts itself again", leave_half_a_checkpoint),
}
ENGINE_FAULTS: Mapping[str, Fault] = {
    "engine": Fault("kills a vLLM engine's own process", "goes on", partial(send, ENGINE, KILL), _PLAYED_AHEAD)
}
SERVER_FAULTS: Mapping[Server, Mapping[str, Fault]] = {
    "embedded": {
        "server": Fault("kills the replay server", "starts itself again", partial(send, None, KILL)),
        "server-stop": Fault("stops the replay server for good", "starts itself again", partial(send, None, STOP)),
        "full-stay": Fault("fills the replay server for good", "starts itself again", partial(fill, True)),
    },
    "external": {
        "away": Fault("stops the replay server for a while", "goes on", stop_external),
        "away-killed": Fault("kills the replay server, and starts it again later", "goes on", kill_external),
    },
}


def faults_of(engine: Engine, server: Server, processes: int = 1) -> Mapping[str, Fault]:
    """All kinds of faults of a run with this engine and server, and so many processes of the learner.

    The torch engine is in the rollout actor's process.
    """
    engine_faults = ENGINE_FAULTS if engine == "vllm" else {}
    return {**FAULTS, **_rank_faults(processes), **SERVER_FAULTS[server], **engine_faults}


def _rank_faults(processes: int) -> dict[str, Fault]:
    """Faults of the learner's processes after the first, which the faults called learner are for."""
    found: dict[str, Fault] = {}
    for rank in range(1, processes):
        what = f"process {rank} of the learner"
        found[f"learner-{rank}"] = Fault(f"kills {what}", "starts itself again", partial(send_to_rank, rank, KILL))
        found[f"learner-{rank}-stop"] = Fault(
            f"stops {what} for good", "starts itself again", partial(send_to_rank, rank, STOP)
        )
    return found


def draw(kinds: list[str], count: int, rng: random.Random) -> list[str]:
    """``count`` kinds in random order; each comes as often as any other, or once more."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(kinds, len(kinds))
    return drawn[:count]
