"""The training of a drill: a child process with all its descendants, and its folder."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from cluster.runs.folder import last_update
from grpo_core.errors import EntenteError

LOOK_EVERY_S = 0.25  # for new processes of the run; each time takes some milliseconds
POLL_S = 0.05
EXIT_TIMEOUT_S = 30.0  # for the processes of a run that has ended


class DrillFailedError(EntenteError):
    """The training did not recover from a fault, or lost something; one line has the expected and the actual."""

    exit_code = 1


class TrainingProcess:
    """``entente train --start-or-resume`` in its own session, with all its descendants, past ones included."""

    def __init__(self, run_dir: Path, config: Path, log: Path) -> None:
        """Start nothing yet. The run's output goes to ``log``."""
        self.run_dir = run_dir
        self._command = [sys.executable, "-m", "cluster.cli", "train", str(config), "--run-dir", str(run_dir)]
        self._command.append("--start-or-resume")
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._driver: psutil.Process | None = None
        self._family: dict[tuple[int, float], psutil.Process] = {}  # by process id and start time
        self._looked = 0.0

    def start(self, overrides: Sequence[str] = ()) -> None:
        """Start or resume the run; ``overrides`` are ``section.key=value``."""
        options = [word for override in overrides for word in ("--set", override)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_restore_signals,
            )
        self._driver = psutil.Process(self._process.pid)

    @property
    def driver(self) -> psutil.Process:
        """The process that was started last."""
        assert self._driver is not None, "nothing was started"
        return self._driver

    @property
    def update(self) -> int:
        """The newest update on record."""
        return last_update(self.run_dir)

    def family(self) -> list[psutil.Process]:
        """Every process of the run that still runs, the driver included."""
        self._look()
        return [process for process in (self.driver, *self._family.values()) if runs(process)]

    def members(self, title: str) -> list[psutil.Process]:
        """The processes whose command line contains ``title``."""
        found = []
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                if title in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Wait for a condition while the run goes on.

        Raises DrillFailedError if ``what`` did not happen within ``limit_s``, or the driver ended.
        """
        deadline = time.monotonic() + limit_s
        while not condition():
            self._look()
            if not runs(self.driver):
                raise DrillFailedError(f"the run ended before {what}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise DrillFailedError(f"no {what} within {limit_s:g} s: {self._last_words()}")
            time.sleep(POLL_S)

    def finish(self, limit_s: float) -> int:
        """Wait for the driver's end; returns its exit status. Raises DrillFailedError after ``limit_s``."""
        assert self._process is not None, "nothing was started"
        deadline = time.monotonic() + limit_s
        while self._process.poll() is None:
            self._look()
            if time.monotonic() > deadline:
                raise DrillFailedError(f"the run did not end within {limit_s:g} s: {self._last_words()}")
            time.sleep(POLL_S)
        return self._process.returncode

    def survivors(self) -> list[str]:
        """Processes of a finished run that still exist after 30 s."""
        return [f"{process.pid} {_title(process)}" for process in gone(list(self._family.values()), EXIT_TIMEOUT_S)]

    def close(self) -> None:
        """Kill every process that still runs."""
        if self._process is None:
            return
        self._look()
        for process in (self.driver, *self._family.values()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(EXIT_TIMEOUT_S)
        gone(list(self._family.values()), EXIT_TIMEOUT_S)

    def _look(self) -> None:
        """Remember every process that descends from the run."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        with suppress(psutil.NoSuchProcess):
            for child in self.driver.children(recursive=True):
                self._family[child.pid, child.create_time()] = child

    def last_line(self) -> str:
        """The last line that the run printed."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def _last_words(self) -> str:
        return f"{self.last_line()} ({self._log})"


def runs(process: psutil.Process) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone(processes: Sequence[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Wait until all have ended; returns those that still run after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while (left := [process for process in processes if runs(process)]) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:120]
    except psutil.NoSuchProcess:
        return "(gone)"


def _restore_signals() -> None:
    """Make the child accept SIGINT and SIGHUP, which a drill in the background or under ``nohup`` ignores."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def kill(process: psutil.Process) -> None:
    """Send SIGKILL, unless the process is gone."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
