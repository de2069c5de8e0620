"""What is run: by seed first, without methods that a task has no use for."""

import pytest

from cluster.comparison.methods import METHODS
from cluster.comparison.plans import PLANS, Plan, TaskPlan
from cluster.errors import RunError
from grpo_core.settings import GroupingSettings, LearnerSettings

FACTS = {"cartpole": frozenset(), "cartpole_family": frozenset({"variant"})}
PLAN = Plan(
    "some", (TaskPlan("cartpole", 100, seeds=1), TaskPlan("cartpole_family", 200, ("grpo_task", "grpo_pcgrad"), 2)), 4
)


def test_seeds_come_one_after_the_other_so_that_all_methods_have_as_many():
    cells = list(PLAN.cells(FACTS))
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert {cell.method for cell in cells if cell.task == "cartpole"} == {
        name for name, method in METHODS.items() if not method.needs_fact and name != "grpo_no_seats"
    }
    family = [(cell.method, cell.seed) for cell in cells if cell.task == "cartpole_family"]
    assert family == [("grpo_task", 0), ("grpo_pcgrad", 0), ("grpo_task", 1), ("grpo_pcgrad", 1)]
    assert len({cell.name for cell in cells}) == len(cells)


def test_a_part_of_a_plan_has_what_is_named():
    part = PLAN.only(("grpo_task", "grpo_time"), ("cartpole_family",), 5, 900, 8)
    cells = list(part.cells(FACTS))
    assert {cell.task for cell in cells} == {"cartpole_family"}
    assert {cell.method for cell in cells} == {"grpo_task", "grpo_time"}
    assert max(cell.seed for cell in cells) == 4
    assert {(cell.budget, cell.episodes_per_update) for cell in cells} == {(900, 8)}
    assert {cell.budget for cell in PLAN.only([], ["cartpole"], None).cells(FACTS)} == {100}


def test_a_part_of_a_plan_can_have_other_seeds():
    part = PLAN.only(("grpo_task",), ("cartpole_family",), 3, first_seed=20)
    assert [cell.seed for cell in part.cells(FACTS)] == [20, 21, 22]


@pytest.mark.parametrize(("methods", "tasks", "named"), [(["grpo"], [], "grpo_batch"), ([], ["chess"], "cartpole")])
def test_unknown_names_are_answered_with_the_known(methods, tasks, named):
    with pytest.raises(RunError, match=named):
        PLAN.only(methods, tasks, None)


def test_a_rate_of_all_methods_is_given_to_each_under_its_name():
    part = PLAN.only(("grpo_task", "rllib_ppo"), ("cartpole_family",), 1, learning_rate=0.5)
    assert {cell.method: cell.settings for cell in part.cells(FACTS)} == {
        "grpo_task": {"learning_rate": 0.5}, "rllib_ppo": {"lr": 0.5}
    }  # fmt: skip
    assert all(cell.settings == {} for cell in PLAN.cells(FACTS))


def test_a_budget_is_refused_for_tasks_that_count_different_things():
    with pytest.raises(RunError, match="--tasks"):
        PLANS["study"].only([], ["cartpole", "diplomacy_random"], None, 500)
    with pytest.raises(RunError, match="--tasks"):
        PLANS["study"].only([], [], None, 500)
    assert PLANS["study"].only([], ["diplomacy_random"], None, 500).tasks[0].budget == 500


def test_every_method_has_settings_that_are_valid_for_every_kind_of_task():
    for method in METHODS.values():
        for facts in (frozenset(), frozenset({"variant"})):
            assert isinstance(method.grouping_settings(facts), GroupingSettings)
        assert isinstance(method.learner_settings({"learning_rate": 1e-4}), LearnerSettings)


def test_no_update_of_ours_has_fewer_episodes_than_a_group_needs():
    for plan in PLANS.values():
        for each in plan.tasks:
            assert each.episodes_per_update >= GroupingSettings().min_group_size


def test_the_smoke_plan_has_every_method_and_every_task_of_the_study():
    smoke, study = PLANS["smoke"], PLANS["study"]
    assert {each.task for each in study.tasks} <= {each.task for each in smoke.tasks}
    assert {name for each in smoke.tasks for name in each.methods} == set(METHODS)
