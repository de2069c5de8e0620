"""The batch script for SLURM: its shell is checked, and it runs with stand-ins for SLURM, Ray and the driver."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.driver.training import save_timeout_s
from cluster.runs.ray_job import JOB_VARIABLE, STOP_VARIABLE, short_stop
from tests.unit.cluster.manifests.manifest_files import MANIFESTS
from tests.unit.cluster.manifests.sizes.size_files import ROOT, SIZES, size

SCRIPT = MANIFESTS / "slurm" / "train.sbatch"
TEXT = SCRIPT.read_text(encoding="utf-8")
WAIT_S = 120

PYTHON = """#!/bin/bash
# Stands in for the Python of the run: the driver, Ray's nodes and their count are not started.
case "$*" in
"-m cluster.train"*--keys*) [[ "$*" != *wrong* ]] || exit 2 ;;
"-m cluster.train"*)
  echo "$*" >> "$STAND_IN/drivers"
  trap 'echo saved >> "$STAND_IN/drivers"; exit 130' TERM
  echo $$ > "$STAND_IN/driver"
  [[ -z ${DRIVER_CODE:-} ]] || exit "$DRIVER_CODE"
  while :; do sleep 0.05; done ;;
"- "*) echo "$*" > "$STAND_IN/counted" ;;
*) exec REAL "$@" ;;
esac
"""
SRUN = """#!/bin/bash
echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN ${*//$'\\n'/ }" >> "$STAND_IN/steps"
port="$(sed -n 's/.*--port=\\([0-9]*\\).*/\\1/p' <<< "$*")"
exec REAL -c 'import os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
with open(os.environ["STAND_IN"] + "/step_ids", "a") as file:
    print(os.getpid(), file=file)
if sys.argv[1]:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
signal.pause()' "$port"
"""
SCONTROL = """#!/bin/bash
[[ $1 != show ]] || printf 'node%s\\n' 1 2 3
echo "$*" >> "$STAND_IN/scontrol"
"""
SCANCEL = """#!/bin/bash
echo "$*" >> "$STAND_IN/scancel"
xargs kill -INT < "$STAND_IN/step_ids"
"""


@dataclass(frozen=True)
class Job:
    """The script as a job, and what its stand-ins wrote."""

    process: subprocess.Popen[str]
    folder: Path

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def await_driver(self, steps: int = 0) -> None:
        """Wait for the driver, and for so many steps of SLURM to be ready for a signal."""
        deadline = time.monotonic() + WAIT_S
        while not self.read("driver").strip() or len(self.read("step_ids").split()) < steps:
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "the driver or its steps did not start"
            time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def started(*arguments: str, **variables: str) -> Job:
        programs = {"python": PYTHON, "srun": SRUN, "scontrol": SCONTROL, "scancel": SCANCEL}
        for name, text in programs.items():
            path = tmp_path / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("REAL", sys.executable))
            path.chmod(0o755)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "ENTENTE", "RAY"))},
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "STAND_IN": str(tmp_path),
            "ENTENTE_PYTHON": str(tmp_path / "bin" / "python"), "SLURM_JOB_ID": str(os.getpid()), **variables,
        }  # fmt: skip
        words = ["bash", str(SCRIPT), *(arguments or ("one_node", str(tmp_path / "run")))]
        process = subprocess.Popen(words, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        return Job(process, tmp_path)

    return started


def test_the_shell_is_right() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True, timeout=60)
    beside = Path(sys.executable).parent
    linter = shutil.which("shellcheck", path=f"{beside}:{os.environ['PATH']}")
    assert linter, "make setup installs shellcheck"
    done = subprocess.run([linter, SCRIPT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_numbers_are_those_of_the_sizes() -> None:
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", TEXT, re.MULTILINE))
    node = size("one_node").nodes[0]
    assert asked["gpus-per-node"] == str(node.gpus)
    assert asked["cpus-per-task"] == str(node.cpus)
    assert asked["mem"] == f"{node.memory_gib}G"
    for name in re.findall(r"cluster/manifests/sizes/(\w+)\.toml", TEXT):
        assert (SIZES / f"{name}.toml").is_file()


def test_a_stopped_run_has_time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    given_s = int(re.findall(r"^save_limit_s=(\d+)", TEXT, re.MULTILINE)[0])
    monkeypatch.setenv(JOB_VARIABLE, "{}")
    monkeypatch.setenv(STOP_VARIABLE, str(given_s))
    config = size("one_node").config
    assert short_stop(config.redis, save_timeout_s(config)) is None
    assert int(re.findall(r"--signal=B:USR1@(\d+)", TEXT)[0]) > given_s


def test_one_node_needs_no_ray_of_its_own(start: Start) -> None:
    job = start(DRIVER_CODE="0")
    assert job.end() == (0, "")
    assert job.read("drivers").split() == [
        "-m", "cluster.train", "one_node", "--run-dir", str(job.folder / "run"), "--start-or-resume",
    ]  # fmt: skip
    assert job.read("steps") == job.read("scontrol") == ""


@pytest.mark.parametrize(
    ("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False), (signal.SIGINT, False)]
)
def test_signals_save_and_only_the_time_limit_queues_the_job_again(
    start: Start, number: signal.Signals, requeued: bool
) -> None:
    job = start()
    job.await_driver()
    job.process.send_signal(number)
    code, said = job.end()
    assert code == 130
    assert "asked to stop" in said
    assert job.read("drivers").endswith("saved\n")
    assert ("requeue" in job.read("scontrol")) is requeued


def test_a_failed_driver_is_tried_again_a_limited_number_of_times(start: Start) -> None:
    assert start(DRIVER_CODE="2").end()[0] == 2
    job = start(DRIVER_CODE="2", SLURM_RESTART_COUNT="10")
    assert job.end()[0] == 2
    assert job.read("scontrol").count("requeue") == 1


@pytest.mark.parametrize(
    ("arguments", "about"),
    [(("one_node",), "run's folder"), (("one_node", "runs/a"), "absolute"), (("wrong", "/shared/runs/a"), "")],
)
def test_wrong_commands_end_before_anything_starts(start: Start, arguments: tuple[str, ...], about: str) -> None:
    job = start(*arguments)
    code, said = job.end()
    assert code == 2
    assert about in said
    assert job.read("drivers") == job.read("scontrol") == ""


def test_several_nodes_share_a_token_and_a_replay_server(start: Start) -> None:
    job = start(SLURM_JOB_NUM_NODES="3", SLURM_JOB_NODELIST="node[1-3]", ENTENTE_HEAD_ADDRESS="127.0.0.1")
    job.await_driver(steps=2)
    job.process.send_signal(signal.SIGTERM)
    code, said = job.end()
    assert code == 130, said
    head, workers = job.read("steps").splitlines()
    [token] = set(re.findall(r"^token ([0-9a-f]{64}) ", f"{head}\n{workers}", re.MULTILINE))
    address = f"127.0.0.1:{22000 + os.getpid() % 5000}"
    assert "--nodelist=node1" in head
    assert "--nodes=2 --ntasks=2" in workers
    assert "--exclude=node1" in workers
    assert workers.endswith(f"--address={address}")
    assert job.read("counted") == f"- {address} 3 300\n"
    driver = job.read("drivers")
    assert f"--set run.ray_address={address}" in driver
    assert f"--set redis.url=redis://127.0.0.1:{27000 + os.getpid() % 5000}/0" in driver
    assert token not in driver
    assert driver.endswith("saved\n")
    log = (job.folder / "run" / "replay_server" / "server.log").read_text()
    assert "bye bye" in log, "the server ended by itself, after the driver"
    assert job.read("scancel").split() == ["--signal=INT", str(os.getpid())]


@pytest.mark.parametrize("address", ["8.8.8.8", "127.0.1.1", "no-address"])
def test_a_public_or_loopback_address_is_refused(start: Start, tmp_path: Path, address: str) -> None:
    (tmp_path / "bin").mkdir()
    getent = tmp_path / "bin" / "getent"
    getent.write_text(f"#!/bin/bash\necho {address} STREAM node1\n")
    getent.chmod(0o755)
    job = start(SLURM_JOB_NUM_NODES="3", SLURM_JOB_NODELIST="node[1-3]")
    code, said = job.end()
    assert code == 2
    assert "ENTENTE_HEAD_ADDRESS" in said
    assert job.read("steps") == ""


def test_a_name_without_an_address_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    getent = tmp_path / "bin" / "getent"
    getent.write_text("#!/bin/bash\nexit 2\n")
    getent.chmod(0o755)
    job = start(SLURM_JOB_NUM_NODES="3", SLURM_JOB_NODELIST="node[1-3]")
    code, said = job.end()
    assert code == 2
    assert "node1 has the address ''" in said
    assert "ENTENTE_HEAD_ADDRESS" in said


def test_a_run_folder_has_one_replay_server_and_may_have_a_space_in_its_name(start: Start, tmp_path: Path) -> None:
    several = {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "node[1-3]", "ENTENTE_HEAD_ADDRESS": "127.0.0.1"}
    folder = tmp_path / "a run"
    first = start("one_node", str(folder), **several)
    first.await_driver(steps=2)
    code, said = start("one_node", str(folder), **several).end()
    assert code == 2
    assert f"another job runs in {folder}" in said
    assert first.process.poll() is None
    first.process.send_signal(signal.SIGTERM)
    assert first.end()[0] == 130
    assert "bye bye" in (folder / "replay_server" / "server.log").read_text()
    assert list((folder / "replay_server").glob("appendonlydir/*")), "its data is there too"
