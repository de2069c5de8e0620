"""Peak memory of a piece of work, in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PROCESS_TIMEOUT_S = 900.0
_CLEAR_PEAK = Path("/proc/self/clear_refs")


def peak_is_measurable() -> bool:
    """Whether the kernel can start a process's peak anew (Linux)."""
    return _CLEAR_PEAK.exists()


def peak_growth_mb(work: Callable[[], object]) -> float:
    """Megabytes by which this process's resident memory rose at most while ``work`` ran.

    The kernel's own peak (VmHWM), started anew just before: it sees what torch, oneDNN and Python allocate alike, and
    not what was there already. ``ru_maxrss`` would keep the peak of the imports. What was freed earlier goes back to
    the system first: kept by the allocator it would serve ``work``, whose need would look small.
    """
    hand_back_freed_memory()
    _CLEAR_PEAK.write_text("5", encoding="ascii")
    before = _status_kib("VmRSS")
    work()
    return (_status_kib("VmHWM") - before) * 1024 / 1e6


def hand_back_freed_memory() -> None:
    """Give memory that nobody uses back to the system, where the C library is glibc; elsewhere only collect garbage."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def in_fresh_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a module's function in a new interpreter, whose memory nothing else has touched."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result(PROCESS_TIMEOUT_S)


def _status_kib(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])
