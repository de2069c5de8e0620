"""A training run from outside: a process and its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

ENTENTE = [sys.executable, "-m", "cluster.cli"]
QUICK = (
    "--set", "game.until_year=1901", "--set", "evaluation.until_year=1901", "--set", "metrics.display=false",
)  # fmt: skip


PATIENCE_S = 900.0  # the limit of every wait for a run, far above what a slow or busy machine takes
END_S = 120.0  # for a killed process to be gone


def handle_stop_signals() -> None:
    """In a child: do not ignore SIGINT and SIGHUP, as tests in the background or under ``nohup`` do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class TrainingProcess:
    """``entente train`` in a process group of its own; leaving the block ends its processes."""

    def __init__(self, run_dir: Path, *arguments: str, config: str | None = "smoke") -> None:
        self.run_dir = run_dir
        command = [*ENTENTE, "train", *([config] if config else []), "--run-dir", str(run_dir), *arguments]
        self.log = run_dir.with_name(f"{run_dir.name}.{time.monotonic_ns()}.log")
        self._file = self.log.open("w")
        self.process = subprocess.Popen(
            command,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ),
            preexec_fn=handle_stop_signals,
        )
        self.family: dict[int, psutil.Process] = {}

    def __enter__(self) -> TrainingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        self.process.kill()
        self.process.wait(END_S)
        self._file.close()
        for process in self.family.values():
            if process.is_running():
                process.kill()

    def look(self) -> None:
        """Record the processes that descend from the run."""
        try:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self.family[child.pid] = child
        except psutil.NoSuchProcess:
            pass

    def members(self, title: str) -> list[psutil.Process]:
        """Its running processes with ``title`` in their command line."""
        self.look()
        found = []
        for process in self.family.values():
            with suppress(psutil.NoSuchProcess):  # one that has ended since
                if title in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.look()
            assert self.process.poll() is None, f"ended while waiting for {what}:\n{self.output()}"
            assert time.monotonic() < deadline, f"no {what} within {timeout_s} s:\n{self.output()}"
            time.sleep(0.05)

    def finish(self, timeout_s: float = PATIENCE_S) -> int:
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            self.look()
            assert time.monotonic() < deadline, f"not done within {timeout_s} s:\n{self.output()}"
            time.sleep(0.2)
        return self.process.returncode

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does when memory runs out."""
        self.look()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(END_S)

    def output(self) -> str:
        return self.log.read_text()

    def survivors(self, timeout_s: float = END_S) -> list[str]:
        """Descendants that are still running after a while."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = [text for process in self.family.values() if (text := _shown(process))]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


def _shown(process: psutil.Process) -> str | None:
    """Process id and command of a process; None if it has ended."""
    try:
        ended = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return None if ended else f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.NoSuchProcess:
        return None
