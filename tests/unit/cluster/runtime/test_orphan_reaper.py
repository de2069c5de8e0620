"""The orphan reaper: the processes it finds, and what it reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import cluster.runtime.orphan_reaper
from cluster.runtime.orphan_reaper import descendants, guard, guarded, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the orphan reaper reads /proc, which only Linux has")


def test_a_process_with_a_name_that_is_not_utf8_is_found(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/twelve-lette\xc3"  # what is left of a longer name, cut after fifteen bytes
    os.symlink("/bin/sleep", program)
    child = subprocess.Popen([program, "30"])
    try:
        seen = processes()
        assert seen[child.pid][0] == os.getpid()
        started, ours = seen[child.pid][1], seen[os.getpid()][1]
        assert child.pid in descendants((os.getpid(), ours), started, {})
        assert descendants((os.getpid(), ours + 1), started, {}) == {}, "another process with the id of the root"
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # without taking its status
        assert child.pid not in processes(), "a zombie is an exit status and no process"
    finally:
        child.kill()
        child.wait(5)


def test_processes_that_do_not_end_are_logged_and_do_not_hide_the_runs_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: popen(sleeper, **options))
    monkeypatch.setattr(cluster.runtime.orphan_reaper, "GRACE_S", -cluster.runtime.orphan_reaper.SWEEP_S - 5.0)
    with pytest.raises(KeyError, match="why"), guarded():
        raise KeyError("why")
    assert "are left behind" in caplog.text


def test_the_reaper_survives_signals_from_its_first_moment_on() -> None:
    before = set(psutil.Process().children())
    with guarded():
        (reaper,) = set(psutil.Process().children()) - before
        for number in (signal.SIGTERM, signal.SIGHUP):
            reaper.send_signal(number)
        with pytest.raises(psutil.TimeoutExpired):
            reaper.wait(0.5)
    assert not reaper.is_running() or reaper.status() == psutil.STATUS_ZOMBIE


def test_the_reaper_of_a_run_that_is_killed_at_once_leaves_other_processes_alone() -> None:
    """Its parent is then init, from which every process of the machine descends."""
    before = set(psutil.Process().children())
    with guarded():
        (reaper,) = set(psutil.Process().children()) - before
        own = os.getpid()
        until = time.monotonic() + 60
        while not reaper.cmdline():  # the kernel shows none for a moment after a program has begun
            assert time.monotonic() < until, "the reaper has no command line after 60 s"
        assert reaper.cmdline()[-2:] == [str(own), str(processes()[own][1])]


def test_a_reaper_whose_run_is_gone_before_it_looks_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    root = gone.pid, processes()[gone.pid][1]
    gone.communicate(b"\n", timeout=60)
    ended: list[int] = []
    with open(os.devnull) as closed:
        monkeypatch.setattr(sys, "stdin", closed)
        monkeypatch.setattr(os, "kill", lambda pid, _: ended.append(pid))
        monkeypatch.setattr(cluster.runtime.orphan_reaper, "GRACE_S", 0.0)
        monkeypatch.setattr(cluster.runtime.orphan_reaper, "SWEEP_S", 0.3)
        bystander = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
        guard(root)
        assert not ended
        # A living run's processes are ended, so the look is a real one.
        guard((os.getpid(), processes()[os.getpid()][1]))
        assert bystander.pid in ended
    bystander.communicate(b"\n", timeout=60)
