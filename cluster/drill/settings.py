"""The training of a drill: a tiny one with short time limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from cluster.configs.loader import load_config
from cluster.configs.schema import Config

Engine = Literal["torch", "vllm"]
Server = Literal["embedded", "external"]  # of the replay: the run starts it, or the drill does

UPDATES_PER_FAULT = 100  # more than a run makes between two faults; the drill ends it
STOPPED_S = 12.0  # that the driver is stopped; longer than any other process waits
RECOVERY_TIMEOUT_S = 300.0  # for one fault; far more than a run needs, also on a busy machine

_LIMITS = (
    "run.silence_timeout_s=10",
    "redis.answer_timeout_s=10",
    "redis.group_timeout_s=10",
    "rollout.swap_timeout_s=20",
    "rollout.block_timeout_s=40",
    "rollout.start_timeout_s=120",
    "rollout.update_timeout_s=240",
)
_WORK = (
    "run.name=drill",
    "learner.checkpoint_every=2",
    "rollout.max_replacements=1000",
    "metrics.display=false",
)
# What is trained unless a config is named: games of 13 to 22 phases, whose lengths are compared with those of a run
# without faults.
SHIPPED = "smoke"
_LONGER = ("game.until_year=1905", "evaluation.until_year=1901")
_EXTERNAL = ("redis.connect_timeout_s=2", "redis.answer_timeout_s=5", "redis.away_timeout_s=240")
_OWN_PROCESS = ("inference.engine=vllm", "inference.engine_process=own", "rollout.start_timeout_s=280")


def drill_config(
    engine: Engine,
    faults: int,
    seed: int,
    server_urls: Sequence[str] = (),
    config: str | None = None,
    processes: int | None = None,
    servers: int = 1,
) -> Config:
    """The configuration of the run: ``config`` (None: the shipped ``smoke``) with short time limits.

    ``server_urls`` name external replay servers; empty: the run starts ``servers`` of them. ``processes``
    are the learner's; None: as configured. Raises ConfigError as ``load_config``.
    """
    overrides = [*_LIMITS, *_WORK, f"run.seed={seed}", f"learner.updates={UPDATES_PER_FAULT * (faults + 1)}"]
    if processes is not None:
        overrides.append(f"learner.processes={processes}")
    if server_urls:
        overrides += [*_EXTERNAL, f"redis.urls={json.dumps(list(server_urls))}"]
    elif servers > 1:
        overrides.append(f"redis.servers={servers}")
    overrides += _OWN_PROCESS if engine == "vllm" else ("inference.engine=torch",)
    if config is None:
        return load_config(SHIPPED, [*overrides, *_LONGER])
    return load_config(config, overrides)
