"""``entente drill``, short enough for CI: many kinds of faults in one training, and a reconciliation that balances."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.system.support.drill_of_kinds import check_drill
from tests.system.support.training_process import ENTENTE, handle_stop_signals

pytestmark = [pytest.mark.system, pytest.mark.timeout(2400)]


def test_a_run_on_two_replay_servers_recovers_from_faults_and_loses_no_episode(tmp_path: Path) -> None:
    # The other kinds: tests/soak/test_drill_of_all_kinds.py, tests/soak/test_learner_group.py
    check_drill(tmp_path, ("server", "block"), restarting=("server",), poison_episodes=2, servers=2)


def test_ctrl_c_ends_a_drill_and_all_its_processes(tmp_path: Path) -> None:
    drill = subprocess.Popen(
        [*ENTENTE, "drill", "--run-dir", str(tmp_path / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=handle_stop_signals,
    )  # fmt: skip
    family: dict[int, psutil.Process] = {}
    try:
        deadline = time.monotonic() + 600
        while not any("redis" in " ".join(_words(process)) for process in family.values()):
            assert time.monotonic() < deadline, "no replay server within 120 s"
            assert drill.poll() is None, drill.communicate()[0]
            family |= {child.pid: child for child in psutil.Process(drill.pid).children(recursive=True)}
            time.sleep(0.05)
        drill.send_signal(signal.SIGINT)
        text, _ = drill.communicate(timeout=600)
        assert drill.returncode == 130, text
        assert "Traceback" not in text
        _, left = psutil.wait_procs(family.values(), timeout=30)
        assert left == []
    finally:
        drill.kill()
        for process in family.values():
            if process.is_running():
                process.kill()


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
