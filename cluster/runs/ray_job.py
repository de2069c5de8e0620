"""Support for a driver that is a submitted Ray job: its cluster, its run folder, and the time to stop it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cluster.configs.schema import Config
from cluster.errors import RunError
from services.settings import RedisSettings

JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray sets it for the driver of a job only
STOP_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"  # Ray reads it from the head's environment or the job's runtime_env
RAY_STOPS_AFTER_S = 3.0  # Ray's own default
ENDING_S = 20.0  # to leave the cluster after the save


def in_job() -> bool:
    """Whether this process is the driver of a job."""
    return JOB_VARIABLE in os.environ


def on_its_cluster(config: Config) -> Config:
    """Return the configuration; if it names no cluster, with the one that the job was submitted to."""
    if not in_job() or config.run.ray_address is not None:
        return config
    return config.model_copy(update={"run": config.run.model_copy(update={"ray_address": "auto"})})


def check_run_dir(run_dir: Path) -> None:
    """Raise RunError for a run folder in a job's copy of ``--working-dir``, which Ray deletes with the job."""
    facts: Any = json.loads(os.environ.get(JOB_VARIABLE, "{}"))
    copied = bool((facts.get("runtime_env") or {}).get("working_dir"))
    if copied and run_dir.resolve().is_relative_to(Path.cwd().resolve()):
        raise RunError(
            f"the run folder {run_dir} would lie in the job's copy of its working directory, which Ray deletes; "
            "choose an absolute folder that all nodes of the cluster share with --run-dir"
        )


def short_stop(redis: RedisSettings, save_s: float) -> str | None:
    """Warn if ``ray job stop`` may kill the run while it saves; None if there is enough time.

    The last checkpoint may take ``save_s`` seconds, and the waits of the replay buffer (``redis``) may delay it.
    """
    if not in_job():
        return None
    given_s = float(os.environ.get(STOP_VARIABLE, RAY_STOPS_AFTER_S))
    longest_s = save_s + redis.group_timeout_s + redis.answer_timeout_s + ENDING_S
    if given_s >= longest_s:
        return None
    return (
        f"ray job stop kills this run after {given_s:.0f} s, and saving a checkpoint may take up to {longest_s:.0f} s "
        f"(else the run continues from the one before): set {STOP_VARIABLE}={longest_s:.0f} where the head is started, "
        "or in env_vars of the job's runtime_env"
    )
