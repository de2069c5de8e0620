"""The explorer's page shows what the learner did under settings other than the usual ones, pass by pass."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cluster.explore.page import write_explorer
from grpo_core.settings import GroupingSettings, LearnerSettings
from tests.system.reports.explorer.pages import Open, drawn
from tests.system.reports.explorer.traced_run import GROUPING, LEARNER, traced_run

pytestmark = pytest.mark.system

PLAIN = {"entropy_coef": 0.0}
CHAIN = {"keys": ("country+phase", "country"), "group_weights": "none"}
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two epochs by token": ({"epochs": 2, "minibatches": 2, "normalizer": "token"}, {}),
    "off-policy correction and penalty": ({"epochs": 2, "minibatches": 2, "decoupled": True, "beta": 0.05}, {}),
    "the largest advantages": ({**PLAIN, "top_advantage_quantile": 0.3}, {}),
    "less what ratings predict": ({}, {**CHAIN, "opponent_adjusted": True}),
    "episodes less what ratings predict": ({"returns": "episode"}, {
        **CHAIN, "keys": ("country",), "opponent_adjusted": True}),
    "shrunk": ({}, {**CHAIN, "shrinkage": True}),
    "shrunk and left out": ({}, {**CHAIN, "shrinkage": True, "baseline": "leave_one_out", "scale_rewards": "group"}),
    "segments": ({"returns": "segment"}, CHAIN),
}  # fmt: skip

RECORDED = """async () => {
  const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
  const judged = judgedBy("trained", FIRST_CHOICE, runs[0], trace);
  const gap = distanceToRecorded(judged, trace);
  const passes = everyPass(trace, judged, trace.learner, FIRST_CHOICE);
  const rows = passes.flatMap((each) => each.places.map(({ turn, step, recordedWeight }, row) => {
    const found = trace.recorded.get(turn).passes.find((pass) => pass.step === step);
    return [Math.abs(each.weights[row] / recordedWeight - 1), Math.abs(each.tokens.advantages[row] -
      Math.fround(found.advantage))];
  }));
  return { gap, passes: passes.length, rows, recorded: trace.tokens.map(({ turn, passes }) => [turn, passes.length]) };
}"""

STEPS = """async () => {
  const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
  const judged = judgedBy("trained", FIRST_CHOICE, runs[0], trace);
  const context = { trace, judged, trained: judged, run: runs[0], choice: FIRST_CHOICE };
  return [...trace.turns.phase.keys()].filter((turn) => turn % 5 === 0).flatMap((turn) =>
    advantageSteps(context, judged.sample_of_turn[turn], turn).filter(({ tagName }) => tagName === "SECTION").map(
      (node) => [node.querySelector("h3").textContent, node.querySelector(".filled").textContent]));
}"""


@pytest.fixture(scope="module", params=RUNS, ids=[name.replace(" ", "-") for name in RUNS])
def page_of_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    learner, grouping = RUNS[request.param]
    run = traced_run(
        tmp_path_factory.mktemp("other") / "run", 2,
        settings=LearnerSettings.model_validate({**LEARNER.model_dump(), **learner}),
        grouping=GroupingSettings.model_validate({**GROUPING.model_dump(), **grouping}),
    )  # fmt: skip
    return request.param, write_explorer(run, None, lambda name, steps: lambda done: None)


def test_every_pass_is_what_the_run_recorded(opened: Open, page_of_run: tuple[str, Path]) -> None:
    name, file = page_of_run
    with opened("view=formulas", file=file) as page:
        found = page.evaluate(RECORDED)
    assert found["gap"] == 0
    assert found["passes"] == RUNS[name][0].get("epochs", 1)
    assert len(found["rows"]) > 100
    assert max(weight for weight, _ in found["rows"]) < 1e-6  # float32 in the run
    assert max(advantage for _, advantage in found["rows"]) == 0
    assert any(passes == 0 for _, passes in found["recorded"]) == (name == "the largest advantages")


def test_the_steps_are_true_equations(opened: Open, page_of_run: tuple[str, Path]) -> None:
    name, file = page_of_run
    with opened("view=formulas", file=file) as page:
        steps = page.evaluate(STEPS)
    checked: dict[str, int] = {}
    for title, text in steps:
        gap = distance(text)
        if gap is not None:
            checked[title] = checked.get(title, 0) + 1
            assert gap < 0.01, f"{title}: {text}"
    expected = {"Advantage"}
    if RUNS[name][1].get("opponent_adjusted"):
        expected.add("Against these opponents")
    if RUNS[name][1].get("shrinkage"):
        expected.add("Shrinkage")
    if RUNS[name][0].get("returns", "per_phase") == "per_phase":
        expected.add("Return")
    assert all(checked.get(title, 0) > 5 for title in expected), checked


def distance(text: str) -> float | None:
    """How far the two last sides of "name = expression = number" differ, relative to rounding; None without both."""
    sides = text.split(" = ")
    if len(sides) < 3 or re.search(r"[A-Za-z]", sides[-2]):
        return None
    for old, new in (("\u2212", "-"), ("\u00b7", "*"), ("^", "**")):
        sides = [side.replace(old, new) for side in sides]
    assert re.fullmatch(r"[-+*/(). 0-9]+", sides[-2]), text
    left, right = float(eval(sides[-2], {})), float(sides[-1])  # numbers and signs alone
    return abs(left - right) / (1 + abs(right))


def test_a_turn_that_is_not_among_the_largest_says_so(opened: Open, page_of_run: tuple[str, Path]) -> None:
    name, file = page_of_run
    if name != "the largest advantages":
        return
    with opened("view=formulas", file=file) as page:
        without = next(turn for turn, passes in page.evaluate(RECORDED)["recorded"] if passes == 0)
        page.evaluate("(turn) => choose({ turn, token: 0 })", without)
        drawn(page)
        expect(page.locator("#verdict")).to_contain_text("the run keeps the largest advantages alone")
        expect(step(page, "Largest advantages")).to_contain_text("The turn gives no gradient.")
        assert "advantage was 0" not in page.locator("body").inner_text()


def test_clipping_counts_every_pass(opened: Open, page_of_run: tuple[str, Path]) -> None:
    name, file = page_of_run
    with opened("view=formulas", file=file) as page:
        counts = page.evaluate(
            """async () => {
              const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
              const judged = judgedBy("trained", FIRST_CHOICE, runs[0], trace);
              return everyPass(trace, judged, trace.learner, FIRST_CHOICE).map(({ losses }) => [losses.length,
                losses.filter(({ clipped }) => clipped !== null).length]);
            }"""
        )
        text = page.locator("#clipping .headline").inner_text()
    assert f"{sum(clipped for _, clipped in counts)} token" in text.replace("\u202f", "").replace(",", "")
    assert f"of {sum(tokens for tokens, _ in counts)} recorded" in text.replace("\u202f", "").replace(",", "")
    assert len(counts) == RUNS[name][0].get("epochs", 1)


def step(page: Page, title: str) -> Any:
    return page.locator(".step", has=page.get_by_role("heading", name=title, exact=True))
