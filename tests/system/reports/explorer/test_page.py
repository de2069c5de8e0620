"""The explorer's page in a real Chromium, offline: every control, the selection, and that its figures are right."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cluster.explore.clusters import cluster_labels
from cluster.explore.page import write_explorer
from cluster.runs.traces import read_trace, trace_files
from tests.system.reports.explorer.pages import LAPTOP, PHONE, VIEWS, Open, choice, drawn
from tests.system.reports.explorer.traced_run import traced_run

pytestmark = pytest.mark.system


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_drawn_without_errors_or_sideways_scrolling(
    opened: Open, viewport: dict[str, int], scheme: str
) -> None:
    with opened(viewport=viewport, scheme=scheme) as page:
        for view in VIEWS:
            page.get_by_role("tab", name=view.capitalize()).click()
            drawn(page)
            expect(page.locator("#view")).to_have_attribute("aria-labelledby", f"tab-{view}")
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), view
            assert unnamed(page) == [], view


def unnamed(page: Page) -> list[str]:
    """Controls without a name that a screen reader could say."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [role=button], [role=slider], [role=tab]")]
        .filter((node) => node.checkVisibility())
        .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length))
        .map((node) => node.outerHTML.slice(0, 200))"""
    )
    return found


def test_the_selection_goes_from_the_run_to_a_token_and_lives_in_the_address(opened: Open) -> None:
    with opened("view=groups&formed=true") as page:
        page.get_by_label("Episode", exact=True).select_option(index=1)
        drawn(page)
        page.locator("button.turn").first.click()
        drawn(page)
        page.locator("button.word").first.click()
        drawn(page)
        assert {"episode", "turn", "token"} <= choice(page).keys()
        path = page.get_by_role("navigation", name="Selection").inner_text()
        assert re.search(r"Run long.*Update 3.*Episode .*Turn .*Token", path, re.DOTALL)
        page.reload()
        drawn(page)
        assert page.get_by_role("navigation", name="Selection").inner_text() == path
        page.get_by_role("button", name="Update before").click()  # another update keeps the view, not the episode
        drawn(page)
        assert choice(page)["update"] == "2"
        assert "episode" not in choice(page)
        page.go_back()
        drawn(page)
        assert page.get_by_role("navigation", name="Selection").inner_text() == path


def test_the_page_says_that_it_computes_what_the_run_recorded(opened: Open) -> None:
    with opened("view=groups") as page:
        for _ in range(3):
            expect(page.get_by_text("This page computed the advantages again; they are those that the run recorded.")
                   ).to_be_visible()  # fmt: skip
            before = page.get_by_role("button", name="Update before")
            if before.is_enabled():
                before.click()
                drawn(page)


def test_every_strategy_can_be_tried_or_says_why_not(opened: Open, trace: dict[str, Any]) -> None:
    with opened("view=groups") as page:
        options = page.locator("select[data-key=Strategy] option")
        names = options.evaluate_all("(all) => all.map((each) => [each.value, each.disabled, each.textContent])")
        assert not any(disabled for _, disabled, _ in names)
        assert "start" not in {value for value, _, _ in names}  # no fact of this world
        groups = {}
        for value, disabled, _ in names:
            if not disabled:
                page.locator("select[data-key=Strategy]").select_option(value)
                drawn(page)
                groups[value] = int(page.locator("summary", has_text="Groups as a table").inner_text().split("(")[1]
                                    .split(",")[0])  # fmt: skip
        assert groups["none"] == 1
        assert groups["role"] == 3
        assert groups["trained"] == groups["phase"] == 3 * len(set(trace["turns"]["phase"]))
        assert groups["lineup"] == 6
        expect(
            page.get_by_text("Known only after the actions it would judge")
        ).to_be_visible()  # the last one, outcomes


def test_a_strategy_that_cannot_be_tried_says_why(opened: Open) -> None:
    with opened("view=groups&returns=episode") as page:
        option = page.locator("select[data-key=Strategy] option[value=phase]")
        expect(option).to_be_disabled()
        expect(option).to_contain_text("phase changes within an episode: choose returns by turn")


def test_controls_do_what_they_say(opened: Open) -> None:
    with opened("view=groups&strategy=hand&fact=own_centers") as page:

        def groups() -> str:
            return page.locator("summary", has_text="Groups as a table").inner_text()

        few = groups()
        page.get_by_label("Number of groups").press("Home")
        drawn(page)
        assert choice(page)["number"] == "2"
        assert groups() != few
        for weights in ("balanced", "adaptive", "none"):
            page.get_by_label(weights, exact=True).first.check()
            drawn(page)
            assert choice(page)["weights"] == weights
        page.get_by_text("Baseline, scale and returns").click()
        for label, name, value in (
            ("leave one out", "baseline", "leave_one_out"), ("episode", "returns", "episode"),
            ("group", "scale", "group"),
        ):  # fmt: skip
            page.get_by_label(label, exact=True).check()
            drawn(page)
            assert choice(page)[name] == value
        page.get_by_label("Shrink small groups towards their parents").check()
        drawn(page)
        assert choice(page)["shrinkage"] == "true"
        page.get_by_role("button", name="Back to how it was").click()
        drawn(page)
        changed = {"weights", "baseline", "returns", "scale", "shrinkage", "strategy", "number"}
        assert choice(page).keys() & changed == set()


def test_dots_move_into_their_groups(opened: Open) -> None:
    with opened("view=groups&role=FRANCE") as page:
        dots = "() => [...document.querySelectorAll('.chart-dot')].map((dot) => dot.getBoundingClientRect().x)"
        before = page.evaluate(dots)
        page.get_by_role("button", name="Form the groups").click()
        drawn(page)
        after = page.evaluate(dots)
        assert len(before) == len(after) == 56
        assert sum(left != right for left, right in zip(before, after, strict=True)) > 40
        expect(page.locator(".formation")).to_contain_text("S1901M")
        for color in ("role", "fact:own_centers", "opponents", "advantage"):
            page.locator("select[data-key='Colour by']").select_option(color)
            drawn(page)
        page.locator(".formation .chart-dot").first.click(force=True)
        drawn(page)
        assert {"episode", "group"} <= choice(page).keys()


def test_boundaries_drawn_by_hand_make_groups(opened: Open, trace: dict[str, Any]) -> None:
    with opened("view=groups&strategy=hand&fact=own_centers&number=2&cuts=3.5") as page:
        low = sum(value < 3.5 for value in trace["turns"]["facts"]["own_centers"])

        def judged() -> list[int]:
            page.evaluate("() => document.querySelector('[data-key=group-table]').open = true")
            cells = page.locator("[data-key=group-table] tbody tr").evaluate_all(
                "(rows) => rows.map((row) => [row.cells[0].textContent, row.cells[2].textContent])")  # fmt: skip
            return [int(size) for name, size in cells if name.endswith(", 0")]

        assert sum(judged()) == low
        handle = page.locator(".formation [role=slider]").first
        handle.focus()
        for _ in range(2):
            page.keyboard.press("PageUp")
            drawn(page)
        cut = float(choice(page)["cuts"])
        assert cut > 3.5
        page.wait_for_timeout(100)
        assert sum(judged()) == sum(value < cut for value in trace["turns"]["facts"]["own_centers"])


@pytest.mark.parametrize("kind", ["auto", "dirichlet"])
def test_clusters_say_which_numbers_their_members_have(opened: Open, trace: dict[str, Any], kind: str) -> None:
    clusters = cluster_labels(trace, {})
    with opened(f"view=groups&strategy={kind}&number=3&returns=episode") as page:
        page.evaluate("() => document.querySelector('[data-key=group-table]').open = true")
        rows = page.locator("[data-key=group-table] tbody tr").evaluate_all(
            "(rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent])")  # fmt: skip
    expected: dict[str, list[str]] = {}
    for role, label in set(zip(trace["episodes"]["role"], clusters[kind]["3"], strict=True)):
        own = [
            place
            for place, of in enumerate(zip(trace["episodes"]["role"], clusters[kind]["3"], strict=True))
            if of == (role, label)
        ]
        ranges = []
        for name in clusters["features"]:
            values = [trace["episodes"]["facts"][name][place] for place in own]
            low, high = min(values), max(values)
            ranges.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
        expected[f"{role}, {label}"] = ranges
    shown = {name: text for name, text in rows if name in expected}
    assert len(shown) >= 3
    assert shown == {name: ", ".join(expected[name]) for name in shown}


def test_two_strategies_are_compared_on_the_same_batch(opened: Open) -> None:
    with opened("view=advantages") as page:
        page.get_by_label("Compare with another strategy").check()
        drawn(page)
        page.locator("select[data-key=Other]").select_option("role")
        drawn(page)
        expect(page.get_by_text(re.compile("flips the sign of"))).to_be_visible()
        page.locator("select[data-key=Other]").select_option("trained")
        drawn(page)
        expect(page.get_by_text(re.compile("flips the sign of 0 samples"))).to_be_visible()
        expect(page.locator("dd", has_text=re.compile(r"^1$")).first).to_be_visible()  # the cosine


def test_losses_and_ablations_change_the_token(opened: Open, trace: dict[str, Any]) -> None:
    turn = next(each["turn"] for each in trace["tokens"] if each["passes"] and len(each["trained"]) > 1)
    with opened(f"view=formulas&turn={turn}&token=1") as page:

        def slope() -> str:
            return page.locator(".step", has_text="What the token adds").locator(".filled").inner_text()

        seen = {slope()}
        for loss in ("bnpo", "dr_grpo", "dapo", "cispo", "rloo", "grpo"):
            page.locator("select[data-key=Loss]").select_option(loss)
            drawn(page)
            seen.add(slope())
        assert len(seen) >= 4
        for normalizer in ("token", "episode", "turn"):
            page.locator("select[data-key=Normaliser]").select_option(normalizer)
            drawn(page)
        for label in ("no clipping", "no importance ratio (take it as 1)", "no entropy bonus"):
            page.get_by_label(label).check()
            drawn(page)
        expect(page.locator(".step", has_text="Importance ratio").locator(".filled")).to_contain_text("ρ = 1")
        assert page.locator(".step", has_text="Entropy bonus").count() == 0


def test_recorded_weights_and_losses_are_computed_again(opened: Open) -> None:
    with opened("view=formulas") as page:
        gaps = page.evaluate(
            """async () => {
              const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
              const judged = judgedBy("trained", FIRST_CHOICE, runs[0], trace);
              const rows = tokenRows(trace, judged, trace.learner, FIRST_CHOICE);
              const passes = trace.tokens.flatMap((turn) => turn.passes.slice(0, 1).map((pass) => [turn.turn, pass]));
              const weights = new Map(rows.places.map(({ turn }, row) => [turn, rows.weights[row]]));
              return passes.map(([turn, pass]) => [
                Math.abs(weights.get(turn) - pass.weight) / pass.weight,
                Math.abs(Math.fround(pass.advantage) - judged.advantages[judged.sample_of_turn[turn]])]);
            }"""
        )
        assert len(gaps) > 50
        assert max(weight for weight, _ in gaps) < 1e-6  # float32 in the run
        assert max(advantage for _, advantage in gaps) == 0


def test_the_course_shows_groups_and_opponents(opened: Open) -> None:
    with opened("view=course") as page:
        for title in ("Return by group", "Opponents", "Reward against each opponent"):
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        card = page.locator("figure", has=page.get_by_role("heading", name="Return by group", exact=True))
        before = card.inner_text()
        card.get_by_label("Groups of").select_option("FRANCE")
        drawn(page)
        card = page.locator("figure", has=page.get_by_role("heading", name="Return by group", exact=True))
        assert card.inner_text() != before
        assert choice(page) == {"view": "course", "groups_of": "FRANCE"}


def test_pitfalls_answer_their_sliders(opened: Open) -> None:
    with opened("view=pitfalls") as page:
        for card in page.locator(".experiment").all():
            before = card.inner_text()
            for control in card.locator("input[type=range]").all():
                control.press("End")
            for control in card.locator("select").all():
                control.select_option(index=1)
            assert card.inner_text() != before


def test_an_update_without_clusters_says_so_and_keeps_its_controls(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=2)
    path = trace_files(run / "traces")[1]
    columns = read_trace(path)
    columns["episodes"]["facts"] = {"country": columns["episodes"]["role"]}
    path.write_bytes(gzip.compress(json.dumps(columns).encode()))
    file = write_explorer(run, None, lambda name, steps: lambda done: None)
    with opened("view=groups&strategy=auto", file=file) as page:
        page.get_by_role("button", name="Update before").click()
        drawn(page)
        expect(page.locator(".control-card")).to_contain_text("no number known at the start varies here")
        expect(page.locator("#inspector h2").first).to_have_text("Update 1")
        page.locator("select[data-key=Strategy]").select_option("role")
        drawn(page)
        assert page.locator(".chart-dot").count() > 0


def test_whole_episodes_are_judged_by_the_keys_that_they_have(opened: Open) -> None:
    with opened("view=groups&returns=episode") as page:
        expect(page.locator(".control-card")).to_contain_text("country+phase, country becomes country")
        assert page.locator(".chart-dot").count() == 42


def test_strategies_that_divide_no_role_say_so(opened: Open) -> None:
    with opened("view=groups&strategy=bins&fact=own_centers&number=4") as page:
        assert "Here these are the groups by country" not in page.locator(".control-card").inner_text()
    with opened("view=groups&strategy=hand&fact=own_centers&cuts=-50") as page:
        expect(page.locator(".control-card")).to_contain_text("Here these are the groups by country")
