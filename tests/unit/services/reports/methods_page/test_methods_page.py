"""What the page of a comparison says of made-up runs."""

import pytest

from cluster.comparison.cell import Cell
from cluster.comparison.comparison import Finished
from cluster.comparison.methods import METHODS
from cluster.comparison.summary import summarised
from services.environments.tensor_tasks.catalogue import make_task
from services.reports.methods_page.methods_page import methods_body

TASKS = {"cartpole_family": make_task("cartpole_family")}


def page_of(variants, seconds=2.0, unit="steps"):
    rows, runs = [], []
    for method in ("grpo_batch", "grpo_task"):
        for seed in range(2):
            own = [
                {"method": method, "task": "cartpole_family", "seed": seed, "steps": 130 * number,
                 "episodes": 10 * number, "seconds": seconds * number, "return": 20.0 + number, "by_variant": variants,
                 "figures": {}}
                for number in range(2)
            ]  # fmt: skip
            rows += own
            budget = 100 if unit == "steps" else 10
            runs.append(Finished(Cell(method, "cartpole_family", seed, budget, 1, unit=unit), tuple(own)))
    return methods_body({
        "summary": summarised(runs, TASKS), "rows": rows,
        "titles": {name: each.title for name, each in METHODS.items()},
        "methods": {name: each.does for name, each in METHODS.items()}, "missing": [], "failed": [],
        "yardsticks": {}, "command": "entente compare study", "commit": "abc", "machine": "2 cores",
    })  # fmt: skip


@pytest.mark.parametrize(("variants", "ratio"), [({"a": 5.0, "b": 10.0}, True), ({"a": -5.0, "b": 10.0}, False)])
def test_the_worst_variant_is_told_with_and_without_shares(variants, ratio):
    page = page_of(variants)
    assert "<h3>The worst variant</h3>" in page
    assert ("0.90" in page) == ratio
    assert "none where a return is negative" in page


def test_how_far_runs_ended_from_their_budget_is_told():
    assert "was to get 100 steps. An update is not cut short, so runs ended at 130." in page_of({"a": 1.0})
    page = page_of({"a": 1.0}, unit="episodes")
    assert "was to get 10 games.</p>" in page
    assert "12 games</text>" in page or "10 games</text>" in page


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0.4 s"), (98.4, "98 s"), (1234.5, "1,234 s")])
def test_seconds_are_readable(seconds, text):
    assert f"Return after {text}<" in page_of({"a": 1.0}, seconds)
