"""SkyPilot's tasks as plain YAML; its own loader reads them in tests/adapters/skypilot."""

from __future__ import annotations

import subprocess
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
