"""The training that is disturbed: a child process with all that it starts, and the folder it writes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from cluster.drill.errors import BrokenPromiseError
from cluster.runs.audit_records import last_update

LOOK_EVERY_S = 0.25  # for new processes of the run: a look costs some milliseconds
POLL_S = 0.05
GONE_S = 30.0  # for the processes of a run that ended


class Training:
    """``entente train --start-or-resume``, in a session of its own, and every process that ever descended from it."""

    def __init__(self, run_dir: Path, config: Path, log: Path) -> None:
        """Nothing is started yet.

        Args:
            run_dir: of the run.
            config: a TOML file.
            log: takes what the run prints.
        """
        self.run_dir = run_dir
        self._command = [sys.executable, "-m", "cluster.cli", "train", str(config), "--run-dir", str(run_dir)]
        self._command.append("--start-or-resume")
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._driver: psutil.Process | None = None
        self._family: dict[tuple[int, float], psutil.Process] = {}  # by process id and start time
        self._looked = 0.0

    def start(self, overrides: Sequence[str] = ()) -> None:
        """Start the run, or go on with it; ``overrides`` are ``section.key=value``."""
        said = [word for override in overrides for word in ("--set", override)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *said],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_hear_interrupts,
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
        """Those whose command line has ``title`` in it."""
        found = []
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                if title in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float) -> None:
        """Wait while the run goes on.

        Raises:
            BrokenPromiseError: ``what`` did not come within ``limit_s``, or the driver ended instead.
        """
        deadline = time.monotonic() + limit_s
        while not condition():
            self._look()
            if not runs(self.driver):
                raise BrokenPromiseError(f"the run ended while {what} was awaited: {self._last_words()}")
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"no {what} within {limit_s:g} s: {self._last_words()}")
            time.sleep(POLL_S)

    def finish(self, limit_s: float) -> int:
        """Wait for the driver's end; its exit status.

        Raises:
            BrokenPromiseError: it did not end within ``limit_s``.
        """
        assert self._process is not None, "nothing was started"
        deadline = time.monotonic() + limit_s
        while self._process.poll() is None:
            self._look()
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"the run did not end within {limit_s:g} s: {self._last_words()}")
            time.sleep(POLL_S)
        return self._process.returncode

    def survivors(self) -> list[str]:
        """Processes of a run that ended which are still there after a while."""
        return [f"{process.pid} {_title(process)}" for process in gone(list(self._family.values()), GONE_S)]

    def close(self) -> None:
        """End whatever still runs."""
        if self._process is None:
            return
        self._look()
        for process in (self.driver, *self._family.values()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(GONE_S)
        gone(list(self._family.values()), GONE_S)

    def _look(self) -> None:
        """Remember every process that descends from the run."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        with suppress(psutil.NoSuchProcess):
            for child in self.driver.children(recursive=True):
                self._family[child.pid, child.create_time()] = child

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it said nothing'} ({self._log})"


def runs(process: psutil.Process) -> bool:
    """Whether a process is there and no zombie, which is nothing but an exit status."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone(processes: Sequence[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Wait for the end of all of them; those that are still there after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while (left := [process for process in processes if runs(process)]) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:120]
    except psutil.NoSuchProcess:
        return "(gone)"


def _hear_interrupts() -> None:
    """In the child: SIGINT is heard also where the drill was started in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kill(process: psutil.Process) -> None:
    """SIGKILL; nothing if it is gone."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
