"""Trackers that hang, die or refuse: the run goes on, is told once, and counts what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from grpo_core.errors import StorageError
from services.metrics.trackers import client
from services.metrics.trackers.client import TrackerProcess, Trackers
from services.metrics.trackers.tracker import TrackedRun

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

# Each answers as ``services.metrics.trackers.process`` does.
ANSWER = "import sys\nfor number, line in enumerate(sys.stdin):\n    print({answer}, flush=True)\n"
TAKES_ALL = ANSWER.format(answer="''")
REFUSES_THE_SECOND = ANSWER.format(answer="'OSError: no network' if number == 2 else ''")
CANNOT_OPEN = ANSWER.format(answer="'UsageError: no key'")
HANGS = "import time\ntime.sleep(10000)\n"
DIES = "import sys\nsys.stdin.readline()\n"
WAITS_FOR_THE_END = f"{TAKES_ALL}sys.stderr.write('finished\\n')\n"
STAYS = f"{TAKES_ALL}print('', flush=True)\nimport subprocess\nsubprocess.run(['sleep', '10000'])\n"


def started(folder: Path, program: str) -> tuple[Trackers, TrackerProcess]:
    run = TrackedRun("demo", "demo-1", str(folder), {})
    process = TrackerProcess("fake", run, [sys.executable, "-c", program])
    return Trackers([process]), process


def record(trackers: Trackers, updates: Sequence[int]) -> None:
    for update in updates:
        trackers.record(update, {"entente_loss": 0.5})


def test_a_tracker_that_takes_all_gives_no_notice(tmp_path: Path) -> None:
    trackers, process = started(tmp_path, TAKES_ALL)
    record(trackers, range(20))
    trackers.close(300.0)
    assert (trackers.notices(), process.lost) == ([], 0)


def test_a_record_that_is_refused_is_told_once_and_counted(tmp_path: Path) -> None:
    trackers, process = started(tmp_path, REFUSES_THE_SECOND)
    record(trackers, range(5))
    trackers.close(300.0)
    told, missing = trackers.notices()
    assert told == f"fake: OSError: no network (more in {tmp_path / 'log.txt'}); the run goes on"
    assert missing.startswith("fake: 1 records are missing")
    assert process.lost == 1
    trackers.close(300.0)
    assert trackers.notices() == []


@pytest.mark.parametrize(("program", "reason"), [(CANNOT_OPEN, "UsageError: no key"), (DIES, "its process has ended")])
def test_a_tracker_that_cannot_open_or_dies_loses_everything_after(tmp_path: Path, program: str, reason: str) -> None:
    trackers, process = started(tmp_path, program)
    process._thread.join(300.0)
    record(trackers, range(5))
    trackers.close(300.0)
    told, missing = trackers.notices()
    assert told.startswith(f"fake: {reason} ")
    assert (process.lost, missing.partition(" records")[0]) == (6, "fake: 6")


def test_a_tracker_that_hangs_neither_blocks_a_record_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "QUEUE", 3)
    trackers, process = started(tmp_path, HANGS)
    record(trackers, range(10))  # would wait for ever if the queue were waited for
    (told,) = trackers.notices()
    assert told.startswith("fake: it lags 3 records behind")
    trackers.close(0.5)
    assert process._process.returncode is not None
    assert not process._thread.is_alive()
    assert process.lost == 11  # and the run itself, which comes first
    assert trackers.notices() == ["fake: 11 records are missing there; the run folder has all"]


def test_a_tracker_that_hangs_costs_a_healthy_one_nothing(tmp_path: Path) -> None:
    run = TrackedRun("demo", "demo-1", "", {})
    hanging, healthy = (
        TrackerProcess(
            name, TrackedRun(run.name, run.run_id, str(tmp_path / name), {}), [sys.executable, "-c", program]
        )
        for name, program in (("hanging", HANGS), ("healthy", WAITS_FOR_THE_END))
    )
    trackers = Trackers([hanging, healthy])
    trackers.record(1, {"entente_loss": 0.5})
    while healthy._queue.qsize():  # its interpreter may be slow to start
        time.sleep(0.05)
    trackers.close(20.0)
    assert (tmp_path / "healthy" / "log.txt").read_text() == "finished\n"
    assert healthy.lost == 0
    assert hanging.lost == 2
    told = trackers.notices()
    assert told[0].startswith("hanging: it did not finish in time, and was ended")
    assert told[1:] == ["hanging: 2 records are missing there; the run folder has all"]


IGNORES_CHILDREN = """
import signal, sys
from pathlib import Path
from services.metrics.trackers.client import TrackerProcess, Trackers
from services.metrics.trackers.tracker import TrackedRun

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
process = TrackerProcess("fake", TrackedRun("demo", "demo-1", sys.argv[1], {}), [sys.executable, "-c", sys.argv[2]])
trackers = Trackers([process])
trackers.record(1, {"entente_loss": 0.5})
trackers.close(300.0)
print(process.lost, trackers.notices())
"""


def test_where_ended_processes_are_reaped_by_the_system_the_end_is_quiet(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IGNORES_CHILDREN, str(tmp_path), TAKES_ALL],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0 []\n"), done.stderr


def test_an_error_on_opening_one_tracker_leaves_no_other_running(tmp_path: Path) -> None:
    (tmp_path / "wandb").write_text("no folder")
    before = set(psutil.Process().children())
    with pytest.raises(StorageError):
        Trackers.open(["tensorboard", "wandb"], TrackedRun("demo", "demo-1", "", {}), tmp_path)
    assert set(psutil.Process().children()) == before


def test_what_a_tracker_leaves_running_is_ended(tmp_path: Path) -> None:
    trackers, process = started(tmp_path, STAYS)
    record(trackers, [1])
    leader = psutil.Process(process._process.pid)
    deadline = time.monotonic() + 300.0
    process._queue.put(None)
    while not (children := leader.children()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    trackers.close(0.5)
    psutil.wait_procs(children, timeout=300.0)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
