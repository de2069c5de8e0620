"""The explorer's five questions, against answers that are computed here from the trace."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from cluster.explore.page import write_explorer
from tests.system.reports.explorer.pages import Open, choice, drawn

pytestmark = pytest.mark.system


def shown(value: float) -> str:
    """A number as the page writes it, below 1000 in size."""
    digits = 3 if abs(value) < 1 else 4
    text = f"{value:.{digits}g}" if "e" not in f"{value:.{digits}g}" else f"{value:.{digits}f}"
    return text.replace("-", "\u2212")


def test_a_good_game_with_a_negative_advantage_is_explained(opened: Open, trace: dict[str, Any]) -> None:
    below = [(value, advantage) for value, advantage in zip(trace["returns"], trace["advantages"], strict=True)
             if advantage < 0]  # fmt: skip
    value, advantage = max(
        pair for pair in below if pair[1] <= -0.25 * np.std(trace["advantages"])
    )  # clearly below its group
    with opened() as page:
        page.get_by_role("button", name="Why did this good game get a negative advantage?").click()
        drawn(page)
        verdict = page.locator("#verdict").inner_text()
        assert f"its return {shown(value)} is better than" in verdict
        assert f"its advantage is {shown(advantage)}" in verdict
        assert "but below the mean" in verdict
        assert page.locator(".step").count() >= 4


def test_what_other_groups_would_have_changed_is_counted(opened: Open, trace: dict[str, Any], run: Path) -> None:
    signs = changed_signs(trace)
    with opened() as page:
        page.get_by_role("button", name="What would per-phase groups have changed?").click()
        drawn(page)
        expect(page.locator("#comparison-text")).to_contain_text(f"flips the sign of {signs} sample")
        expect(page.get_by_text("The update had groups by phase already")).to_be_visible()


def changed_signs(trace: dict[str, Any]) -> int:
    """Samples whose advantage has another sign against their role's mean than the run recorded; by hand."""
    roles = [role for role, turns in zip(trace["episodes"]["role"], trace["episodes"]["turns"], strict=True)
             for _ in range(turns)]  # fmt: skip
    values = trace["returns"]
    means = {role: sum(v for v, r in zip(values, roles, strict=True) if r == role) / roles.count(role)
             for role in set(roles)}  # fmt: skip
    pairs = zip(values, roles, trace["advantages"], strict=True)
    return sum((value - means[role]) * advantage < 0 for value, role, advantage in pairs)


def test_the_role_that_carried_an_update_is_named(opened: Open, trace: dict[str, Any]) -> None:
    roles = [role for role, turns in zip(trace["episodes"]["role"], trace["episodes"]["turns"], strict=True)
             for _ in range(turns)]  # fmt: skip
    pull = {role: sum(abs(a) for a, r in zip(trace["advantages"], roles, strict=True) if r == role) for role in roles}
    first = max(pull, key=lambda role: pull[role])
    share = f"{round(100 * pull[first] / sum(pull.values()), 1):g} %"
    with opened() as page:
        page.get_by_role("button", name="Which country carried this update?").click()
        drawn(page)
        expect(page.locator("#carried")).to_contain_text(f"{first.capitalize()} carried update 3: {share} of the pull")


def test_what_clipping_removed_is_counted(opened: Open, trace: dict[str, Any]) -> None:
    low, high = trace["learner"]["epsilon"], trace["learner"]["epsilon_high"]
    clipped = count = 0
    for turn in trace["tokens"]:
        for each in turn["passes"][:1]:
            for logprob, old in zip(each["logprobs"], turn["behaviour"], strict=True):
                ratio = math.exp(logprob - old)
                count += 1
                clipped += ratio < 1 - low if each["advantage"] < 0 else ratio > 1 + high
    assert clipped > 0
    with opened() as page:
        page.get_by_role("button", name="What did clipping remove?").click()
        drawn(page)
        text = page.locator("#clipping").inner_text()
        assert re.search(rf"{clipped} tokens? of {count} recorded", text)
        assert {"turn", "token"} <= choice(page).keys()  # one of them is shown step by step


def test_the_smallest_group_says_how_uncertain_it_is(opened: Open, trace: dict[str, Any]) -> None:
    with opened() as page:
        page.get_by_role("button", name="Is this group too small?").click()
        drawn(page)
        details = page.locator("#group-details")
        expect(details).to_contain_text("its mean comes from 14 episodes, so the mean's standard error is 27 %")


def test_questions_are_about_what_the_run_did_whatever_was_tried_before(opened: Open, trace: dict[str, Any]) -> None:
    tried = "view=start&strategy=role&loss=rloo&weights=none&baseline=leave_one_out"
    with opened() as plain, opened(tried) as changed:
        expect(changed.get_by_text("You changed the grouping or the loss")).to_be_visible()
        for name, place in (("What did clipping remove?", "#clipping .headline"),
                            ("Which country carried this update?", "#carried .headline"),
                            ("Why did this good game get a negative advantage?", "#verdict")):  # fmt: skip
            texts = []
            for page in (plain, changed):
                page.get_by_role("tab", name="Start").click()
                drawn(page)
                page.get_by_role("button", name=name).click()
                drawn(page)
                texts.append(page.locator(place).inner_text())
                assert page.locator(".tour-target").count() == 1  # the answer is marked
            assert texts[0] == texts[1]
        assert changed.get_by_text("You changed the grouping or the loss").count() == 0


def test_a_turn_without_tokens_leads_to_one_that_has_them(opened: Open, tmp_path: Path) -> None:
    page_file = write_explorer(Path("demo"), tmp_path / "demo.html", lambda name, steps: lambda done: None)
    with opened("view=formulas", file=page_file) as page:
        turn = page.evaluate("""async () => {
          const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
          return [...trace.turns.phase.keys()].find((turn) => !trace.recorded.has(turn));
        }""")
        page.evaluate("(turn) => choose({ turn })", turn)
        drawn(page)
        page.get_by_role("button", name=re.compile("Go to an? (episode|turn)")).first.click()
        drawn(page)
        expect(page.get_by_text("What the token adds")).to_be_visible()
