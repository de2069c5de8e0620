"""What is different where the driver is a submitted Ray job: its cluster, the folders that outlive it, and its end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cluster.configs.schema import Config
from cluster.errors import RunError

JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray sets it for a job's driver, and for nobody else
STOP_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"  # read by Ray itself, of the head's environment or the job's runtime_env
RAY_STOPS_AFTER_S = 3.0  # Ray's own default
ENDING_S = 20.0  # to leave the cluster once all is saved


def in_job() -> bool:
    """Whether this process is the driver of a job."""
    return JOB_VARIABLE in os.environ


def on_its_cluster(config: Config) -> Config:
    """The configuration with the cluster that the job was submitted to, where it names none."""
    if not in_job() or config.run.ray_address is not None:
        return config
    return config.model_copy(update={"run": config.run.model_copy(update={"ray_address": "auto"})})


def check_run_dir(run_dir: Path) -> None:
    """Refuse a run folder that would vanish.

    Raises:
        RunError: it lies in the copy of ``--working-dir``, which Ray deletes.
    """
    if _working_dir_is_a_copy() and run_dir.resolve().is_relative_to(Path.cwd().resolve()):
        raise RunError(
            f"the run folder {run_dir} would lie in the job's copy of its working directory, which Ray deletes; give "
            "--run-dir an absolute folder that all nodes of the cluster share"
        )


def short_stop(config: Config, save_s: float) -> str | None:
    """What to tell the user where ``ray job stop`` may kill a run that is still saving.

    Args:
        config: of the run.
        save_s: seconds that its last checkpoint may take; before it the learner may have to wait for the buffer.
    """
    if not in_job():
        return None
    given_s = float(os.environ.get(STOP_VARIABLE, RAY_STOPS_AFTER_S))
    longest_s = save_s + config.redis.group_timeout_s + config.redis.answer_timeout_s + ENDING_S
    if given_s >= longest_s:
        return None
    return (
        f"ray job stop kills this run after {given_s:.0f} s, and to save a checkpoint may take up to {longest_s:.0f} s "
        f"(else it goes on from the one before): set {STOP_VARIABLE}={longest_s:.0f} where the head is started, or in "
        "env_vars of the job's runtime_env"
    )


def _working_dir_is_a_copy() -> bool:
    facts: Any = json.loads(os.environ.get(JOB_VARIABLE, "{}"))
    return bool((facts.get("runtime_env") or {}).get("working_dir"))
