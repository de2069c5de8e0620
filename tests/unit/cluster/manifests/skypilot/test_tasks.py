"""SkyPilot's tasks as plain YAML; its own loader reads them in tests/adapters/skypilot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import load_config
from tests.unit.cluster.manifests.manifest_files import MANIFESTS, documents
from tests.unit.cluster.manifests.sizes.size_files import ROOT, size

FOLDER = MANIFESTS / "skypilot"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
Task = dict[str, Any]


def tasks(name: str) -> list[Task]:
    return [document for document in documents(FOLDER / name) if "run" in document]


def at_least(value: str) -> int:
    return int(value.removesuffix("+"))


def gpus(task: Task) -> set[int]:
    """GPUs of a node, of each kind that will do: ``A100:8``, or a set of such in braces."""
    named = task["resources"]["accelerators"]
    return {int(name.partition(":")[2]) for name in ([named] if isinstance(named, str) else named)}


@pytest.mark.parametrize("name", FILES)
def test_tasks_say_what_they_need_and_contain_no_secret(name: str) -> None:
    for task in tasks(name):
        for section in ("setup", "run"):
            subprocess.run(["bash", "-n"], input=task[section], text=True, check=True, timeout=60)
        assert not any(task.get("secrets", {}).values())
        assert "ray stop" not in task["run"], "it would end SkyPilot's own Ray"
        if task["num_nodes"] > 1 or "spot" in name:
            assert task["envs"]["RAY_AUTH_MODE"] == "token"
            assert "RAY_AUTH_TOKEN" in task["secrets"]
        assert "ports" not in task["resources"], "nothing is open to the internet"
        config = task["envs"].get("CONFIG")
        if config is not None:
            load_config(str(ROOT / config) if config.endswith(".toml") else config)
            assert task["envs"]["RUN_DIR"].startswith("/shared/runs/")
            assert "--start-or-resume" in task["run"]


@pytest.mark.parametrize("name", ["one_node", "nine_nodes"])
def test_nodes_of_one_task_hold_their_size(name: str) -> None:
    [task] = tasks(f"{name}.yaml")
    config, [nodes] = size(name).config, size(name).nodes
    assert task["num_nodes"] == nodes.count
    assert gpus(task) == {nodes.gpus}
    assert at_least(task["resources"]["cpus"]) >= nodes.cpus
    assert task["envs"]["CONFIG"] == f"cluster/manifests/sizes/{name}.toml"
    assert config.run.name == name


def test_rollout_actors_have_spot_nodes_and_the_learner_none() -> None:
    cluster = load_config("cluster")
    header = documents(FOLDER / "spot_rollouts.yaml")[0]
    learner, *rollouts = tasks("spot_rollouts.yaml")
    assert header["primary_tasks"] == [learner["name"]]
    assert not learner["resources"]["use_spot"]
    assert all(task["resources"]["use_spot"] for task in rollouts)
    assert sum(task["num_nodes"] for task in rollouts) == cluster.rollout.max_actors
    wanted_cpus = 1 + cluster.rollout.actors * cluster.rollout.cpus_per_actor
    assert f'"CPU", 0) < {wanted_cpus:g}:' in learner["run"]
    for task in rollouts:
        assert at_least(task["resources"]["cpus"]) == cluster.rollout.cpus_per_actor
        assert gpus(task) == {cluster.rollout.gpus_per_actor}
        assert f"--num-cpus={cluster.rollout.cpus_per_actor:g}" in task["run"]
        assert f"{learner['name']}-0.{header['name']}" in task["run"]
    assert {task["run"] for task in rollouts} == {rollouts[0]["run"]}


PYTHON = """#!/bin/bash
case "$*" in
-) cat > /dev/null ;;
"-m cluster.train"*) exit "$DRIVER_CODE" ;;
*) exec REAL "$@" ;;
esac
"""
RAY = """#!/bin/bash
case "$*" in
*--head*)
  cd "$(dirname "$0")"
  ./raylet --gcs-address=127.0.0.1:PORT & echo $! >> ../../own
  ./gcs_server --gcs_server_port=PORT & echo $! >> ../../own
  ./raylet --gcs-address=127.0.0.1:6380 & echo $! > ../../other ;;
*) touch joined; exit 1 ;;
esac
"""
SERVER = """#!/bin/bash
exec >&- 2>&-
while :; do sleep 0.1; done
"""


def run_of_nine_nodes(folder: Path, port: int, rank: int, driver_code: int = 0) -> int:
    """Run the command of a node with stand-ins for Ray and the driver; return its exit code."""
    [task] = tasks("nine_nodes.yaml")
    for name, text in {"python": PYTHON, "ray": RAY, "raylet": SERVER, "gcs_server": SERVER}.items():
        path = folder / ".venv" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("REAL", sys.executable).replace("PORT", str(port)))
        path.chmod(0o755)
    variables = {
        **os.environ, "SKYPILOT_NODE_IPS": "127.0.0.1", "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "9",
        "DRIVER_CODE": str(driver_code), "CONFIG": "nine_nodes", "RUN_DIR": "/shared/runs/a", "REDIS_URL": "redis://a",
    }  # fmt: skip
    command = task["run"].replace("6379", str(port))
    return subprocess.run(["bash", "-c", command], cwd=folder, env=variables, timeout=120).returncode


def process_ids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def is_running(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("code", [0, 3])
def test_the_head_ends_with_the_training_and_no_other_ray_does(tmp_path: Path, code: int) -> None:
    assert run_of_nine_nodes(tmp_path, 6379, rank=0, driver_code=code) == code
    own, [other] = process_ids(tmp_path / "own"), process_ids(tmp_path / "other")
    try:
        deadline = time.monotonic() + 30
        while any(map(is_running, own)):
            assert time.monotonic() < deadline, "the head's servers did not end"
            time.sleep(0.05)
        assert is_running(other), "SkyPilot's own Ray"
    finally:
        for process_id in (*own, other):
            if is_running(process_id):
                os.kill(process_id, 15)


@pytest.mark.parametrize(("head_lives", "code"), [(False, 0), (True, 1)])
def test_a_node_is_done_when_its_head_is(tmp_path: Path, head_lives: bool, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        if not head_lives:
            # It ends as soon as the node has found it.
            head.settimeout(60)
            joining = subprocess.Popen(
                [sys.executable, "-c", "import socket, sys; socket.socket(fileno=int(sys.argv[1])).accept()",
                 str(head.fileno())], pass_fds=[head.fileno()],
            )  # fmt: skip
            head.close()
        assert run_of_nine_nodes(tmp_path, port, rank=1) == code
        if not head_lives:
            joining.wait(60)
    assert (tmp_path / "joined").exists()
