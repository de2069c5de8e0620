"""``entente doctor``'s checks of a config's places: the run's folder, the policy's files, the metrics port."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from safetensors import safe_open

from cluster.configs.sections import RunSettings
from cluster.diagnostics.finding import Finding, fault, ok, warn
from cluster.diagnostics.security import on_cluster
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runtime.memory import GIB, small_policy_parameters
from grpo_core.errors import CheckpointError, EntenteError
from grpo_core.settings import PolicySettings
from opponents.champion.shipped import starting_folder
from services.settings import MetricsSettings

LOADED_BYTES = 1 * GIB  # weights up to this size are loaded, which finds more faults than their headers show
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.pkl")


def run_folder(run: RunSettings, run_dir: Path | None) -> Iterator[Finding]:
    """Check that a run can write its folder, ``run_dir`` or the default one."""
    subject, path = "run folder", run_dir or Path("runs") / run.name
    if on_cluster(run) and not path.is_absolute():
        where = f"{path} is relative" if run_dir else "it is relative by default"
        yield Finding(
            "fault" if run_dir else "warn",
            subject,
            f"{where}, and every node has another working directory: give --run-dir an absolute folder that all share",
        )
        return
    there = _nearest(path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield fault(subject, f"{path} cannot be written ({there} is no folder of yours): choose another")
    elif RunFolder(path).in_use():
        yield fault(subject, f"another process is training in {path}: wait for it, or choose another folder")
    elif RunFolder(path).begun:
        try:
            RunFolder(path).check_format()
        except RunError as error:
            yield fault(subject, f"{error} in another --run-dir")
        else:
            yield warn(subject, f"{path} holds a run: --resume continues it, another --run-dir starts a new one")
    else:
        yield ok(subject, f"{path} can be written")


def disk(run_dir: Path | None) -> Iterator[Finding]:
    """Check the free space for runs."""
    free = shutil.disk_usage(_nearest(run_dir or Path("runs"))).free
    text = f"{free / GIB:.1f} GiB free for runs"
    yield (ok("disk", text) if free > 2 * GIB else warn("disk", f"{text}; a run may need 1 GiB"))


def policy_files(policy: PolicySettings, run: RunSettings) -> Iterator[Finding]:
    """Check that a run can start from the policy's folder: configuration, weights and tokenizer."""
    if policy.path is None:
        yield ok("policy", f"small, about {small_policy_parameters(policy) / 1e6:.1f} M parameters")
        return
    try:
        folder = starting_folder(policy.path)
    except CheckpointError as error:
        yield fault("policy", str(error))
        return
    if on_cluster(run) and not folder.is_absolute():
        yield fault("policy", f"policy.path {folder} is relative; nodes have other working directories: name it from /")
    elif on_cluster(run) and not folder.exists():
        yield warn("policy", f"{folder} is not seen from here; every node of the cluster needs it there")
    else:
        yield _files_of(folder)


def _files_of(folder: Path) -> Finding:
    from grpo_core.models.folder_files import weight_files
    from grpo_core.models.pretrained import load_model, load_tokenizer

    try:
        load_tokenizer(folder)  # opens every file of weights, too
        weights = sorted(folder / name for name in weight_files(folder))
        size = sum(path.stat().st_size for path in weights)
        if size <= LOADED_BYTES:
            load_model(folder)
    except EntenteError as error:
        return fault("policy", str(error))
    text = f"{_parameters(weights) / 1e6:.1f} M parameters in {len(weights)} safetensors file(s)"
    if size > LOADED_BYTES:
        text += f", whose headers were read ({size / GIB:.1f} GiB: not loaded)"
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    return ok("policy", text + (f"; {', '.join(pickled)} beside them: never read" if pickled else ""))


def _parameters(weights: list[Path]) -> int:
    count = 0
    for path in weights:
        with safe_open(path, framework="numpy") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - no mapping
    return count


def metrics_port(metrics: MetricsSettings) -> Iterator[Finding]:
    """Check that the exporter can listen on its address, and which machines reach it."""
    host, port = metrics.host, metrics.port
    if port is None:
        return
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        mend = "metrics.port to 0 for a free one" if taken else "metrics.host to an address of this machine"
        yield fault("metrics port", f"{port} on {host}: {error.strerror}; set {mend}")
        return
    where = f"{port or 'any free one'} on {host}"
    if ipaddress.ip_address(address[0]).is_loopback:
        yield ok("metrics port", f"{where} is free, for this machine alone")
    else:
        yield warn(
            "metrics port",
            f"{where} is free; any client that reaches it reads the run's figures, and changes nothing: metrics.host = "
            "127.0.0.1 is for this machine alone",
        )


def _nearest(path: Path) -> Path:
    """The path if it exists, else the nearest parent that does."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())
