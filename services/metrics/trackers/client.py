"""The run's side of its trackers: a bounded queue and a process for each, which can neither end nor slow the run."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from grpo_core.checkpoints.atomic_write import writing
from services.metrics.catalogue import Value
from services.metrics.trackers.tracker import Cell, Evaluations, Message, Replay, TrackedRun, series

QUEUE = 256  # messages that a tracker may lag behind; further ones are not taken
FLUSH_S = 60.0  # for all trackers together, at the end of a run, to take what is queued and to finish
LOG = "log.txt"  # in a tracker's folder: what its library prints
_KILL_S = 5.0
_LOOK_S = 0.05


class TrackerProcess:
    """One tracker in its own process, fed by a thread from a bounded queue."""

    def __init__(self, name: str, run: TrackedRun, command: Sequence[str] | None = None) -> None:
        """Start the process; its library is imported there, while the run goes on.

        Raises StorageError if the tracker's folder cannot be written.
        """
        self.name = name
        self.log = Path(run.folder) / LOG
        self.lost = 0  # messages that were not taken, not answered, or that the library refused
        self._counting = threading.Lock()
        self._ending = self._closed = False
        self._told: str | None = None  # the first reason
        self._notices: list[str] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue()  # send() bounds it, so that the end always fits in
        self._ended = threading.Event()
        with writing(self.log):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            output = self.log.open("ab")
        with output:
            self._process = subprocess.Popen(
                command or [sys.executable, "-m", "services.metrics.trackers.process", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # a terminal's Ctrl-C is for the run alone
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._queue.put_nowait(msgspec.json.encode(run) + b"\n")
        self._thread = threading.Thread(target=self._feed, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Queue a message; it is dropped and counted if the tracker lags too far behind, or has ended."""
        if self._ended.is_set():
            self._lose(1)
            return
        if self._queue.qsize() >= QUEUE:
            self._lose(1)
            self._tell(f"it lags {QUEUE} records behind")
            return
        self._queue.put_nowait(msgspec.json.encode(message) + b"\n")

    def notices(self) -> list[str]:
        """Return the lines for the user since the last call."""
        lines, self._notices = self._notices, []
        return lines

    def end(self) -> None:
        """Tell it, behind what is queued, to finish; returns at once."""
        if not self._ending:
            self._ending = True
            self._queue.put_nowait(None)

    def wait(self, deadline: float) -> None:
        """After ``end``, wait until it has taken what is queued and is gone, or until ``deadline``.

        ``deadline`` is in seconds of ``time.monotonic``.
        """
        self._thread.join(max(0.0, deadline - time.monotonic()))
        while not self._thread.is_alive() and self._is_running() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Kill what is left of it, and count what is missing; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.end()
        if self._thread.is_alive():
            self._tell("it did not finish in time, and was ended")
        if not self._is_reaped():  # else its id may be another's by now
            with suppress(ProcessLookupError):  # its library's own processes are in its session
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)
        self._thread.join(_KILL_S)
        with suppress(queue.Empty):
            while True:
                self._lose(self._queue.get_nowait() is not None)
        if self.lost:
            self._notices.append(f"{self.name}: {self.lost} records are missing there; the run folder has all")

    def _feed(self) -> None:
        """Pass on the queue's messages one by one; the process answers each. Runs in the thread.

        A message on its way is counted as lost here alone, however it ends.
        """
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        opened = False
        try:
            while (line := self._queue.get()) is not None:
                pipe.write(line)
                pipe.flush()
                answer = answers.readline()
                if not answer:
                    raise BrokenPipeError
                if reason := answer.decode("utf-8", "replace").strip():
                    self._lose(1)
                    self._tell(reason)
                    if not opened:
                        return
                opened = True
            pipe.close()
            if reason := answers.readline().decode("utf-8", "replace").strip():
                self._lose(1)
                self._tell(reason)
        except OSError:
            self._lose(1)
            self._tell("its process has ended")
        finally:
            self._ended.set()
            with suppress(OSError):
                pipe.close()

    def _is_running(self) -> bool:
        """Whether the process has not exited; it is left to be reaped, so that its id stays its own."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def _is_reaped(self) -> bool:
        """Whether the process is gone already, as after its exit where SIGCHLD is ignored."""
        try:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def _lose(self, messages: int) -> None:
        with self._counting:
            self.lost += messages

    def _tell(self, reason: str) -> None:
        """Leave a notice for the user; only the first reason is told."""
        if self._told is None:
            self._told = reason
            self._notices.append(f"{self.name}: {reason} (more in {self.log}); the run goes on")


class Trackers:
    """All trackers of a run: a metrics sink that also takes evaluations and replays."""

    def __init__(self, processes: Sequence[TrackerProcess], clock: Callable[[], float] = time.time) -> None:
        """Record with these; ``clock`` returns unix seconds."""
        self._processes = tuple(processes)
        self._clock = clock

    @classmethod
    def open(cls, names: Sequence[str], run: TrackedRun, folder: Path) -> Trackers:
        """Start the named trackers; each writes to its own folder ``folder/<name>``.

        Raises StorageError if these cannot be written.
        """
        with ExitStack() as opened:
            processes = []
            for name in names:
                process = TrackerProcess(name, msgspec.structs.replace(run, folder=str(folder / name)))
                opened.callback(process.close)
                processes.append(process)
            opened.pop_all()
        return cls(processes)

    def record(self, update: int, values: Mapping[str, Value]) -> None:
        """See ``MetricsSink.record``."""
        if self._processes:
            self._send(series(update, self._clock(), values))

    def evaluations(self, update: int, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Record the table of all evaluations so far."""
        if self._processes:
            self._send(Evaluations(update, list(columns), [list(row) for row in rows]))

    def replay(self, update: int, name: str, files: Sequence[Path]) -> None:
        """Keep saved games as one artefact."""
        if self._processes and files:
            self._send(Replay(update, name, [str(file.absolute()) for file in files]))

    def notices(self) -> list[str]:
        """Return the lines for the user since the last call."""
        return [line for process in self._processes for line in process.notices()]

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Let all finish within ``timeout_s``; those that do not are killed. A second call does nothing."""
        deadline = time.monotonic() + timeout_s
        for process in self._processes:
            process.end()
        for process in self._processes:
            process.wait(deadline)
        for process in self._processes:
            process.close()

    def _send(self, message: Message) -> None:
        for process in self._processes:
            process.send(message)
