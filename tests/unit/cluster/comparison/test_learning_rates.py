"""Learning rates: those that the record says are the best."""

import json
from pathlib import Path

from cluster.comparison.learning_rates import RATES, TUNED_ON, learning_rate
from cluster.comparison.plans import PLANS
from tests.benchmarks.comparison.learning_rates import BUDGETS, POINTS, SEEDS, best_rate, pairs

RECORD = Path(__file__).parents[3] / "benchmarks/comparison/learning_rates.json"


def test_every_method_has_on_every_task_the_rate_that_was_recorded_as_its_best():
    record = json.loads(RECORD.read_text())
    assert record["budgets"] == BUDGETS
    recorded = [(method, task) for task, by_method in record["courses"].items() for method in by_method]
    assert sorted(recorded) == sorted(pairs())
    for method, task in recorded:
        by_rate = record["courses"][task][method]
        assert sorted(map(float, by_rate)) == sorted(RATES)
        assert all(len(course) == POINTS + 1 for kept in by_rate.values() for course in kept)
        assert all(len(kept) == len(SEEDS) for kept in by_rate.values())
        assert record["chosen"][task][method] == best_rate(by_rate) == learning_rate(method, task)


def test_every_task_of_the_study_was_tuned_for_by_one_of_its_kind():
    tasks = {plan.task for plan in PLANS["study"].tasks}
    assert tasks == TUNED_ON.keys()
    assert set(TUNED_ON.values()) == BUDGETS.keys() <= tasks
    assert max(plan.seeds for plan in PLANS["study"].tasks) < min(SEEDS)


def test_the_best_rate_is_the_one_with_the_best_late_measurements():
    falls, rises = [0.0, 9.0, 9.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]
    assert best_rate({"0.001": [falls, falls], "0.003": [rises, falls]}) == 0.003
