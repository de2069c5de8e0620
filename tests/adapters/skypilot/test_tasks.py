"""The files of cluster/manifests/skypilot, read by SkyPilot's own loaders."""

import copy
from pathlib import Path

import pytest

pytest.importorskip("sky", reason="skypilot has an environment of its own: make adapters")

import sky
import yaml
from sky.utils import dag_utils

FOLDER = Path(__file__).resolve().parents[3] / "cluster" / "manifests" / "skypilot"
GIVEN = {"FILE_SYSTEM": "files:/", "REDIS_URL": "redis://host:6379/0"}
SECRETS = {"ENTENTE_REDIS_PASSWORD": "a", "RAY_AUTH_TOKEN": "b"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """SkyPilot writes below the home folder; ``workdir`` is checked from the project's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")
    monkeypatch.chdir(FOLDER.parents[2])


def load(name, tmp_path):
    """A task, with what the command in the file's head gives it."""
    document = yaml.safe_load((FOLDER / name).read_text())
    for section, values in (("envs", GIVEN), ("secrets", SECRETS)):
        for key, value in document.get(section, {}).items():
            if value is None:
                document[section][key] = values[key]
    path = tmp_path / name
    path.write_text(yaml.safe_dump(document))
    return sky.Task.from_yaml(str(path))


@pytest.mark.parametrize(("name", "nodes"), [("one_node.yaml", 1), ("nine_nodes.yaml", 9)])
def test_tasks_load(name, nodes, tmp_path):
    task = load(name, tmp_path)
    assert task.num_nodes == nodes
    assert all(sum(choice.accelerators.values()) == 8 and not choice.use_spot for choice in task.resources)
    assert "--start-or-resume" in task.run


def test_a_misspelt_key_is_refused(tmp_path):
    document = yaml.safe_load((FOLDER / "one_node.yaml").read_text())
    document["envs"].update(FILE_SYSTEM="files:/")
    wrong = copy.deepcopy(document)
    wrong["resources"]["use_spott"] = wrong["resources"].pop("use_spot")
    for content, is_wrong in ((document, False), (wrong, True)):
        path = tmp_path / "task.yaml"
        path.write_text(yaml.safe_dump(content))
        if is_wrong:
            with pytest.raises(ValueError, match="use_spott"):
                sky.Task.from_yaml(str(path))
        else:
            sky.Task.from_yaml(str(path))


def test_rollouts_are_on_spot_nodes_and_the_learner_is_not():
    group = dag_utils.load_job_group_from_yaml(
        str(FOLDER / "spot_rollouts.yaml"), env_overrides=list(GIVEN.items()), secrets_overrides=list(SECRETS.items())
    )
    assert group.name == "entente"
    assert group.primary_tasks == ["learner"]
    spot = {task.name: {choice.use_spot for choice in task.resources} for task in group.tasks}
    assert spot.pop("learner") == {False}
    assert spot
    assert set.union(*spot.values()) == {True}
