"""The ways in which a run is ended or loses Ray: it saves, says how to go on, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import pty
import select
import signal
import subprocess
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import audits, episodes_used, last_update
from cluster.runtime.local_ray import NICENESS_VARIABLE
from grpo_core.checkpoints.folders import checkpoint_versions
from tests.system.support.training_process import ENTENTE, PATIENCE_S, QUICK, TrainingProcess, handle_stop_signals

LONG = (*QUICK, "--set", "learner.updates=100000", "--set", "learner.checkpoint_every=1000")
UGLY = ("Traceback", "rpc_client", "core_worker", "*** SIG")  # a bug's text, and Ray's own


def updated(run_dir: Path, updates: int) -> bool:
    return last_update(run_dir) >= updates


def check_saved(run_dir: Path) -> None:
    """Its newest update is durable, although checkpoints are rare; no episode is lost or used twice."""
    assert max(checkpoint_versions(run_dir)) == last_update(run_dir)
    assert set(episodes_used(run_dir).values()) == {1}
    assert sorted(audits(run_dir)) == list(range(1, last_update(run_dir) + 1))


def check_loopback_alone(processes: list[psutil.Process]) -> None:
    listening: list[str] = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # one that has ended since
            connections = process.net_connections("inet")
            listening += [found.laddr.ip for found in connections if found.status == psutil.CONN_LISTEN]
    assert len(listening) > 5, "Ray's processes listen on ports"
    addresses = [ipaddress.ip_address(text.removeprefix("::ffff:")) for text in listening]
    assert all(address.is_loopback for address in addresses), addresses


def worker_niceness(run: TrainingProcess) -> set[int]:
    """The priorities of the learner and the rollout actor: another busy program must not starve them."""
    found = set()
    for process in psutil.Process(run.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has ended since
            if any(name in " ".join(process.cmdline()) for name in ("LearnerActor", "RolloutActor")):
                found.add(process.nice())
    return found


def test_a_lost_control_service_restarts_the_run_and_sigterm_to_every_process_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NICENESS_VARIABLE)  # the run sees to it by itself
    run_dir = tmp_path / "run"
    with TrainingProcess(run_dir, *LONG) as run:
        run.wait_until(lambda: updated(run_dir, 2), "two updates")
        run.look()
        check_loopback_alone(psutil.Process(run.process.pid).children(recursive=True))
        assert worker_niceness(run) == {psutil.Process().nice()}
        running = psutil.Process(run.process.pid).children()
        [gcs] = [process for process in running if process.name() == "gcs_server"]
        before = last_update(run_dir)
        gcs.kill()
        run.wait_until(lambda: updated(run_dir, before + 3) and "resumed at" in run.output(), "updates after a restart")
        assert "lost: Ray's control service (GCS) at 127.0.0.1:" in run.output()
        saved = sorted(version for version in checkpoint_versions(run_dir) if version)
        assert saved, "the learner saved without Ray"
        assert saved[0] >= before

        run.look()
        for process in [psutil.Process(run.process.pid), *run.family.values()]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        assert run.finish() == 130
        assert run.survivors() == []
        output = run.output()
        assert "stopped; continue with: entente train --resume" in output.splitlines()[-1]
        assert not any(text in output for text in UGLY), output
    check_saved(run_dir)


class Terminal:
    """A terminal that shows a command's output until it is closed."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        self._shown: list[bytes] = []
        self._closing = threading.Event()

        def take_terminal() -> None:
            handle_stop_signals()
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self._closing.is_set():
            if select.select([self._ours], [], [], 0.05)[0]:
                try:
                    self._shown.append(os.read(self._ours, 1 << 16))
                except OSError:
                    return

    def output(self) -> str:
        return b"".join(self._shown).decode(errors="replace")

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._reader.join(60.0)
        os.close(self._ours)


@pytest.mark.parametrize("to_all", [False, True], ids=["as_the_kernel_does", "to_every_process_first"])
def test_a_run_saves_when_its_terminal_closes(to_all: bool, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    terminal = Terminal(*ENTENTE, "train", "smoke", "--run-dir", str(run_dir), *LONG, "--set", "metrics.display=true")
    run = terminal.process
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not updated(run_dir, 2):
            assert run.poll() is None, terminal.output()
            assert time.monotonic() < deadline, terminal.output()
            time.sleep(0.1)
        family = psutil.Process(run.pid).children(recursive=True)
        for process in [psutil.Process(run.pid), *family] if to_all else ():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGHUP)
        terminal.close()
        assert run.wait(PATIENCE_S) == 130
        assert not psutil.wait_procs(family, timeout=60.0)[1]
    finally:
        with suppress(psutil.NoSuchProcess):
            family += psutil.Process(run.pid).children(recursive=True)
        run.kill()
        run.wait(60.0)
        terminal.close()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    check_saved(run_dir)
