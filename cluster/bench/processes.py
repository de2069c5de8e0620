"""Fresh processes for benchmarks: peak memory of a function call, and objects that live in another process."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import psutil

from cluster.runtime.actor_env import started_with

Host = TypeVar("Host")
P = ParamSpec("P")
R = TypeVar("R")

PROCESS_TIMEOUT_S = 900.0
CALL_TIMEOUT_S = 300.0
END_TIMEOUT_S = 15.0
_CLEAR_PEAK = Path("/proc/self/clear_refs")


def peak_is_measurable() -> bool:
    """Whether the kernel can reset a process's peak memory (Linux)."""
    return _CLEAR_PEAK.exists()


def peak_growth_mb(work: Callable[[], object]) -> float:
    """The largest growth of this process's resident memory while ``work`` ran, in megabytes.

    It is the kernel's peak (VmHWM), reset just before, so it counts what torch, oneDNN and Python allocate, but not the
    imports, as ``ru_maxrss`` would. Freed memory is returned to the system first, or ``work`` would reuse it uncounted.
    """
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc alone has it
        trim(0)
    _CLEAR_PEAK.write_text("5", encoding="ascii")
    before = _status_kib("VmRSS")
    work()
    return (_status_kib("VmHWM") - before) * 1024 / 1e6


def _status_kib(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])


def in_fresh_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a module's function in a new interpreter; returns its result."""
    with _one_process() as pool:
        return pool.submit(function, *args, **kwargs).result(PROCESS_TIMEOUT_S)


def _one_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


class HostProcess(Generic[Host]):
    """An object in another process; its methods run one after another."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self.pid = pool.submit(os.getpid).result(CALL_TIMEOUT_S)

    def call(self, method: Callable[Concatenate[Host, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method, given as ``Class.method``; returns its result.

        Raises RuntimeError if it did not return in time or the process died. The method's errors are raised unchanged.
        """
        try:
            return self.submit(method, *args, **kwargs).result(CALL_TIMEOUT_S)
        except (TimeoutError, BrokenProcessPool):
            raise RuntimeError(
                f"the benchmark's process died in {method.__qualname__}, or took more than {CALL_TIMEOUT_S:.0f} s; is "
                "the machine overloaded or out of memory?"
            ) from None

    def submit(self, method: Callable[Concatenate[Host, P], R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start a method."""
        return self._pool.submit(_call, method, args, kwargs)


@contextmanager
def host_process(
    variables: Mapping[str, str], make: Callable[P, Host], *args: P.args, **kwargs: P.kwargs
) -> Iterator[HostProcess[Host]]:
    """Make an object in a fresh interpreter; the process and its descendants end with the block.

    ``make`` is a class or a module's function; its arguments and all results are pickled, its errors raised unchanged.
    The object may have a ``close`` method. ``variables`` are added to the process's environment.
    """
    pool = _one_process()
    with started_with(variables):
        host: HostProcess[Host] = HostProcess(pool)  # the first call starts the process
    try:
        pool.submit(_make, make, args, kwargs).result(CALL_TIMEOUT_S)
        yield host
    finally:
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(host.pid)
            family = [*process.children(recursive=True), process]
        with suppress(BrokenProcessPool):
            wait([pool.submit(_close)], END_TIMEOUT_S)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in psutil.wait_procs(family, END_TIMEOUT_S)[1]:
            process.kill()


_host: Any = None


def _make(make: Callable[..., Any], args: Any, kwargs: Any) -> None:
    global _host
    _host = make(*args, **kwargs)


def _call(method: Callable[..., R], args: Any, kwargs: Any) -> R:
    return method(_host, *args, **kwargs)


def _close() -> None:
    if hasattr(_host, "close"):
        _host.close()
