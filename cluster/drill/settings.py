"""The training that a drill disturbs: a tiny one, with time limits that do not make it last."""

from __future__ import annotations

from typing import Literal

from cluster.configs.loader import load_config
from cluster.configs.schema import Config

Engine = Literal["torch", "vllm"]

UPDATES_A_FAULT = 100  # more than a run makes between two faults; the end is brought about otherwise
STOPPED_S = 12.0  # that the driver is stopped for: longer than any limit that somebody else waits within
PATIENCE_S = 300.0  # for a run to get over a fault; far more than it needs, also on a machine that is busy

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
    "game.until_year=1901",
    "evaluation.until_year=1901",
    "learner.checkpoint_every=2",
    "rollout.max_replacements=1000",
    "metrics.display=false",
)
_OWN_PROCESS = ("inference.engine=vllm", "inference.engine_process=own", "rollout.start_timeout_s=280")


def drill_config(engine: Engine, faults: int, seed: int) -> Config:
    """The configuration of the run: the shipped ``smoke`` with shorter games and time limits."""
    said = [*_LIMITS, *_WORK, f"run.seed={seed}", f"learner.updates={UPDATES_A_FAULT * (faults + 1)}"]
    return load_config("smoke", [*said, *(_OWN_PROCESS if engine == "vllm" else ("inference.engine=torch",))])
