"""Figures of a comparison from runs whose results are made up."""

import pytest

from cluster.comparison.cell import Cell
from cluster.comparison.comparison import Finished
from cluster.comparison.summary import fairness, summarised
from services.environments.tensor_tasks.catalogue import make_task

TASKS = {name: make_task(name) for name in ("cartpole", "cartpole_family", "kuhn_poker")}


def run(method, task, seed, returns, **last):
    rows = [
        {"method": method, "task": task, "seed": seed, "steps": 100 * number, "episodes": number,
         "seconds": 2.0 * number, "return": value, "by_variant": {}, "figures": {}}
        for number, value in enumerate(returns)
    ]  # fmt: skip
    rows[-1].update(last)
    return Finished(Cell(method, task, seed, 100 * (len(returns) - 1), len(returns) - 1), tuple(rows))


def row_of(found, task, method):
    (row,) = [each for each in found["by_task"] if (each["task"], each["method"]) == (task, method)]
    return row


def test_a_row_has_means_over_seeds_with_their_interval():
    found = summarised(
        [run("grpo_time", "cartpole", seed, [20, 100, end]) for seed, end in enumerate((300, 400, 500))], TASKS
    )
    row = row_of(found, "cartpole", "grpo_time")
    half = 4.302652729911275 * 100 / 3**0.5
    assert (row["return"], row["seeds"], row["worst_seed"], row["start"]) == (400, 3, 300, 20)
    assert row["return_ci95"] == pytest.approx((400 - half, 400 + half))
    assert row["deviation"] == pytest.approx(100)
    assert row["area"] == pytest.approx((60 + (100 + 400) / 2) / 2)
    assert row["steps_per_second"] == pytest.approx(50)


def test_the_worst_variant_is_taken_run_by_run():
    variants = [{"a": 10.0, "b": 40.0}, {"a": 60.0, "b": 20.0}]
    runs = [run("grpo_task", "cartpole_family", seed, [5, 30], by_variant=each) for seed, each in enumerate(variants)]
    row = row_of(summarised(runs, TASKS), "cartpole_family", "grpo_task")
    assert row["worst_variant"] == 15
    assert row["balance"] == pytest.approx((10 / 40 + 20 / 60) / 2)
    assert row["fairness"] == pytest.approx((50**2 / (2 * 1700) + 80**2 / (2 * 4000)) / 2)
    assert row["by_variant"] == {"a": 35, "b": 30}


def test_the_worst_variant_of_each_method_is_held_against_that_of_one_group():
    runs = [
        run(method, "cartpole_family", seed, [5, 30], by_variant={"a": worst + seed, "b": 90.0})
        for method, worst in (("grpo_batch", 10.0), ("grpo_task", 40.0), ("grpo_time", 25.0))
        for seed in range(3)
    ]
    found = summarised([*runs, run("grpo_task", "cartpole", 0, [5, 30])], TASKS)["worst_variants"]
    assert [(row["task"], row["method"]) for row in found] == [
        ("cartpole_family", "grpo_task"), ("cartpole_family", "grpo_time")
    ]  # fmt: skip
    assert found[0]["ratio"] == pytest.approx(41 / 11)
    low, high = found[0]["ratio_ci95"]
    assert 40 / 12 <= low < 41 / 11 < high <= 42 / 10


def test_what_training_brought_is_counted_seed_by_seed():
    runs = [run("grpo_time", "cartpole", seed, [start, start + 100]) for seed, start in enumerate((10, 200, 400))]
    row = row_of(summarised(runs, TASKS), "cartpole", "grpo_time")
    assert (row["gain"], row["gain_ci95"]) == (100, (100, 100))


def test_a_lower_exploitability_is_the_better_one_and_stands_apart_from_returns():
    runs = []
    for seed in range(6):
        for method, gap in (("grpo_batch", 0.4), ("grpo_time", 0.1)):
            gaps = {"exploitability": gap + 0.001 * seed, "average_exploitability": gap / 2}
            first = run(method, "kuhn_poker", seed, [0.0, 0.0], **gaps)
            first.rows[0].update(exploitability=0.47, average_exploitability=0.458)  # networks are not quite even
            runs.append(first)
    found = summarised(runs, TASKS)
    assert row_of(found, "kuhn_poker", "grpo_time")["exploitability"] == pytest.approx(0.1025)
    assert row_of(found, "kuhn_poker", "grpo_time")["uniform_exploitability"] == pytest.approx(0.458)
    assert row_of(found, "kuhn_poker", "grpo_time")["worst_seed"] == pytest.approx(0.105)
    (pair,) = found["pairs"]
    assert (pair["first"], pair["second"], pair["second_better"]) == ("grpo_batch", "grpo_time", 1.0)
    assert pair["significant"]
    assert found["over_tasks"] == []


def test_methods_are_also_held_against_one_another_at_the_time_of_the_fastest():
    fast = [run("grpo_batch", "cartpole", seed, [20, 60, 100]) for seed in range(2)]
    slow = [run("grpo_time", "cartpole", seed, [20, 220, 420]) for seed in range(2)]
    for each in slow:
        for row in each.rows:
            row["seconds"] *= 4
    found = {row["method"]: row for row in summarised([*fast, *slow], TASKS)["equal_seconds"]}
    assert found["grpo_batch"]["seconds"] == found["grpo_time"]["seconds"] == 4
    assert found["grpo_batch"]["return"] == 100
    assert found["grpo_time"]["return"] == 120  # half-way to its measurement after 8 s


def test_a_run_that_diverged_does_not_set_the_time_of_its_task():
    diverged = run("grpo_time", "cartpole", 0, [20, 20, 20])
    for row in diverged.rows:
        row["seconds"] = 0.0
    diverged = Finished(diverged.cell, diverged.rows, "loss is not finite")
    whole = [run("grpo_batch", "cartpole", seed, [20, 60, 100]) for seed in range(2)]
    found = {row["method"]: row for row in summarised([diverged, *whole], TASKS)["equal_seconds"]}
    assert found["grpo_batch"]["seconds"] == 4
    assert (found["grpo_batch"]["return"], found["grpo_time"]["return"]) == (100, 20)


@pytest.mark.parametrize("variants", [{"a": 0.0, "b": 0.0}, {"a": -100.0, "b": -1.0}, {"a": -1.0, "b": 5.0}])
def test_what_is_no_share_of_a_best_variant_is_left_out(variants):
    runs = [run("grpo_task", "cartpole_family", seed, [5, 30], by_variant=variants) for seed in range(2)]
    row = row_of(summarised(runs, TASKS), "cartpole_family", "grpo_task")
    assert row["balance"] is row["fairness"] is None
    assert row["worst_variant"] == min(variants.values())


def test_pairs_are_told_for_each_task_too_and_corrected_within_it():
    runs = [run(method, task, seed, [20, value + seed])
            for task in ("cartpole", "cartpole_family")
            for method, value in (("grpo_batch", 100), ("grpo_time", 200), ("grpo_task", 300))
            for seed in range(6)]  # fmt: skip
    found = summarised(runs, TASKS)
    assert set(found["pairs_by_task"]) == {"cartpole", "cartpole_family"}
    for task, pairs in found["pairs_by_task"].items():
        assert len(pairs) == 3
        assert all(row["tasks"] == [task] and row["second_better"] == 1 for row in pairs)
        assert all(row["p_corrected"] == pytest.approx(3 * min(each["p"] for each in pairs), rel=0.5) for row in pairs)


@pytest.mark.parametrize(("returns", "index"), [([5.0, 5.0, 5.0], 1), ([9.0, 0.0, 0.0], 1 / 3), ([1.0, 3.0], 16 / 20)])
def test_fairness_is_jains_index(returns, index):
    assert fairness(returns) == pytest.approx(index)


def test_chance_is_not_called_a_difference():
    runs = [run(method, "cartpole", seed, [20, value])
            for method, values in (("grpo_batch", (100, 300, 200)), ("grpo_time", (150, 250, 260)))
            for seed, value in enumerate(values)]  # fmt: skip
    (pair,) = summarised(runs, TASKS)["pairs"]
    assert not pair["significant"]
    assert 0 < pair["second_better"] < 1


def test_scores_over_tasks_are_of_tasks_that_methods_share():
    runs = [run("grpo_time", "cartpole", 0, [20, 475.0]), run("grpo_time", "cartpole_family", 0, [20, 22.5]),
            run("grpo_batch", "cartpole", 0, [20, 22.5]), run("grpo_batch", "cartpole_family", 0, [20, 22.5]),
            run("grpo_start", "cartpole", 0, [20, 475.0])]  # fmt: skip
    (table,) = summarised(runs, TASKS)["over_tasks"]
    assert table["tasks"] == ["cartpole", "cartpole_family"]
    found = {row["method"]: row for row in table["rows"]}
    assert found.keys() == {"grpo_time", "grpo_batch"}
    assert found["grpo_time"]["worst_task"] == 0
    assert found["grpo_time"]["interquartile_mean"] == pytest.approx(0.5)
    assert found["grpo_batch"]["interquartile_mean"] == 0


def test_a_run_that_diverged_is_told_and_counts_with_what_it_had_at_its_start():
    diverged = run("grpo_time", "cartpole", 1, [20, 20])
    diverged = Finished(diverged.cell, diverged.rows, "loss is not finite")
    found = summarised([run("grpo_time", "cartpole", 0, [20, 30]), diverged], TASKS)
    assert found["diverged"] == [{"run": diverged.cell.name, "error": "loss is not finite"}]
    row = row_of(found, "cartpole", "grpo_time")
    assert (row["seeds"], row["diverged"], row["return"]) == (2, 1, 25)
