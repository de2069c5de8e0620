"""The tables of a comparison: methods in order, figures with their intervals, and a record of each run's end."""

from cluster.comparison.methods import METHODS
from cluster.comparison.summary import summarised
from tests.benchmarks.comparison.tables import over_tasks, record, task_table
from tests.unit.cluster.comparison.test_summary import TASKS, run

TITLES = {name: method.title for name, method in METHODS.items()}


def document_of(runs):
    rows = [row for each in runs for row in each.rows]
    yardsticks = {"kuhn_poker": {"passes": 10, "exploitability": 0.05}}
    return {"titles": TITLES, "summary": summarised(runs, TASKS), "rows": rows, "yardsticks": yardsticks}


def test_the_best_method_is_first_and_has_its_interval():
    runs = [
        run(method, "cartpole", seed, [20, worth + seed])
        for method, worth in (("grpo_time", 100), ("rllib_ppo", 300))
        for seed in range(3)
    ]
    _, _, head, _, first, second = task_table(document_of(runs), "cartpole")
    assert head.startswith("|  | return | more than untrained | after 2 s |")
    assert first.startswith("| PPO (RLlib) | 301.0 [298.5, 303.5] | 281.0 [278.5, 283.5] |")
    assert second.startswith("| GRPO by task and time | 101.0 [98.5, 103.5] |")


def test_a_game_is_told_by_its_distance_to_equilibrium_the_nearest_first():
    runs = [
        run(method, "kuhn_poker", 0, [0, 0], exploitability=gap, average_exploitability=gap / 2)
        for method, gap in (("grpo_batch", 0.3), ("grpo_time", 0.1))
    ]
    for each in runs:
        each.rows[0].update(exploitability=0.458, average_exploitability=0.458)
    lines = list(task_table(document_of(runs), "kuhn_poker"))
    assert [line.split(" | ")[:3] for line in lines[4:6]] == [
        ["| GRPO by task and time", "0.100", "0.050"], ["| GRPO, one group", "0.300", "0.150"]
    ]  # fmt: skip
    assert lines[-1] == "Even odds over all moves 0.458; 10 passes of counterfactual regret minimisation 0.050."


def test_tasks_that_methods_share_are_told_together():
    runs = [
        run(method, task, seed, [20, 100])
        for method in ("grpo_time", "rllib_ppo")
        for task in ("cartpole", "cartpole_family")
        for seed in range(2)
    ]
    assert next(over_tasks(document_of(runs))) == "**Over** cartpole, cartpole_family"


def test_a_record_has_the_last_measurement_of_each_run_rounded():
    found = record(document_of([run("grpo_time", "cartpole", seed, [20, 100 / 3]) for seed in range(2)]))
    assert [(row["seed"], row["steps"], row["return"]) for row in found["rows"]] == [
        (0, 100, 33.3333), (1, 100, 33.3333)
    ]  # fmt: skip
    assert found["titles"] == TITLES
