"""Whose a comparison's folder is."""

import json
from dataclasses import replace

import pytest

from cluster.comparison.comparison import PLAN, _claim
from cluster.comparison.plans import Plan, TaskPlan
from cluster.errors import RunError

TASK = TaskPlan("cartpole", 100, ("grpo_time",), seeds=3)
PLAN_OF_THREE = Plan("some", (TASK,), points=1)


def plan_with(**changes):
    return replace(PLAN_OF_THREE, tasks=(replace(TASK, **changes),))


def test_a_folder_is_gone_on_with_by_the_same_plan_or_one_of_more_seeds(tmp_path):
    out = tmp_path / "new"
    _claim(out, PLAN_OF_THREE, resume=False)
    with pytest.raises(RunError, match="--resume"):
        _claim(out, PLAN_OF_THREE, resume=False)
    _claim(out, PLAN_OF_THREE, resume=True)
    _claim(out, plan_with(seeds=5), resume=True)
    with pytest.raises(RunError, match="more seeds"):
        _claim(out, PLAN_OF_THREE, resume=True)


def test_a_folder_of_code_that_knew_no_rate_for_all_methods_and_no_first_seed_is_gone_on_with(tmp_path):
    out = tmp_path / "old"
    _claim(out, PLAN_OF_THREE, resume=False)
    kept = json.loads((out / PLAN).read_text())
    assert kept.pop("first_seed") == 0
    for task in kept["tasks"]:
        assert task.pop("learning_rate") is None
    (out / PLAN).write_text(json.dumps(kept))
    with pytest.raises(RunError, match="another comparison"):
        _claim(out, plan_with(learning_rate=0.5), resume=True)
    with pytest.raises(RunError, match="another comparison"):
        _claim(out, replace(PLAN_OF_THREE, first_seed=20), resume=True)
    _claim(out, PLAN_OF_THREE, resume=True)


@pytest.mark.parametrize(
    "change", [{"budget": 200}, {"task": "pong"}, {"methods": ("grpo_task",)}, {"unit": "episodes"}]
)
def test_another_plan_needs_another_folder(tmp_path, change):
    out = tmp_path / "new"
    _claim(out, PLAN_OF_THREE, resume=False)
    with pytest.raises(RunError, match="another comparison"):
        _claim(out, plan_with(**change), resume=True)


def test_other_settings_of_the_methods_need_another_folder(tmp_path, monkeypatch):
    out = tmp_path / "new"
    _claim(out, PLAN_OF_THREE, resume=False)
    before = (out / PLAN).read_bytes()
    monkeypatch.setattr("cluster.comparison.methods.RLLIB_SETTINGS", {"lr": 1.0})
    with pytest.raises(RunError, match="settings have changed"):
        _claim(out, PLAN_OF_THREE, resume=True)
    assert (out / PLAN).read_bytes() == before
