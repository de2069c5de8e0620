"""The explorer's page in a real Chromium, offline: every control, the selection, and that its figures are right."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from cluster.explore.page import write_explorer
from cluster.runs.traces import read_trace, trace_files
from tests.system.reports.explorer.traced_run import traced_run

pytestmark = pytest.mark.system

LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
VIEWS = ("start", "groups", "advantages", "course", "formulas", "pitfalls")
Open = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_run(tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="module")
def written(run: Path) -> Path:
    return write_explorer(run, None, lambda name, steps: lambda done: None)


@pytest.fixture(scope="module")
def trace(run: Path) -> dict[str, Any]:
    """The newest update, which the page shows first."""
    files = trace_files(run / "traces")
    return read_trace(files[max(files)])


@pytest.fixture(scope="module")
def opened(browser: Browser, written: Path) -> Open:
    @contextmanager
    def visit(
        address: str = "", viewport: dict[str, int] = LAPTOP, scheme: str = "light", file: Path = written
    ) -> Iterator[Page]:
        problems: list[str] = []
        context = browser.new_context(
            viewport=viewport,
            color_scheme=scheme,
            offline=True,
            reduced_motion="reduce",  # type: ignore[arg-type]
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(
            ("file:", "data:")) else None)  # fmt: skip
        page.goto(file.as_uri() + (f"#{address}" if address else ""))
        drawn(page)
        yield page
        context.close()
        assert problems == []

    return visit


def drawn(page: Page) -> None:
    """Wait until the page has been drawn, and again after what is still to come."""
    page.wait_for_selector("body[data-drawn]")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")


def choice(page: Page) -> dict[str, str]:
    """What the address says is chosen."""
    found: dict[str, str] = page.evaluate("() => Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    return found


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
        assert choice(page).keys() & {"weights", "baseline", "returns", "scale", "shrinkage", "strategy"} == set()


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


def test_two_strategies_are_compared_on_the_same_batch(opened: Open) -> None:
    with opened("view=advantages") as page:
        page.get_by_label("Compare with another strategy").check()
        drawn(page)
        page.locator("select[data-key=Other]").select_option("role")
        drawn(page)
        expect(page.get_by_text(re.compile("turns the sign of"))).to_be_visible()
        page.locator("select[data-key=Other]").select_option("trained")
        drawn(page)
        expect(page.get_by_text(re.compile("turns the sign of 0 samples"))).to_be_visible()
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


def shown(value: float) -> str:
    """A number as the page writes it, below 1000 in size."""
    digits = 3 if abs(value) < 1 else 4
    text = f"{value:.{digits}g}" if "e" not in f"{value:.{digits}g}" else f"{value:.{digits}f}"
    return text.replace("-", "\u2212")


def test_a_good_game_with_a_negative_advantage_is_explained(opened: Open, trace: dict[str, Any]) -> None:
    below = [(value, advantage) for value, advantage in zip(trace["returns"], trace["advantages"], strict=True)
             if advantage < 0]  # fmt: skip
    value, advantage = max(below)
    with opened() as page:
        page.get_by_role("button", name="Why did this good game get a negative advantage?").click()
        drawn(page)
        verdict = page.locator("#verdict").inner_text()
        assert f"Its return {shown(value)} is better than" in verdict
        assert f"its advantage is {shown(advantage)}" in verdict
        assert "but below the mean" in verdict
        assert page.locator(".step").count() >= 4


def test_what_other_groups_would_have_changed_is_counted(opened: Open, trace: dict[str, Any], run: Path) -> None:
    signs = changed_signs(trace)
    with opened() as page:
        page.get_by_role("button", name="What would per-phase groups have changed?").click()
        drawn(page)
        expect(page.locator("#comparison-text")).to_contain_text(f"turns the sign of {signs} sample")
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
    share = f"{shown(100 * pull[first] / sum(pull.values()))} %"
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
        expect(details).to_contain_text("its mean comes from 14 episodes, so it is uncertain by 27 %")


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


def test_pitfalls_answer_their_sliders(opened: Open) -> None:
    with opened("view=pitfalls") as page:
        for card in page.locator(".experiment").all():
            before = card.inner_text()
            for control in card.locator("input[type=range]").all():
                control.press("End")
            for control in card.locator("select").all():
                control.select_option(index=1)
            assert card.inner_text() != before


def test_the_tour_leads_through_the_page(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("button", name="Take the tour").click()
        titles = []
        while True:
            drawn(page)
            box = page.locator(".tour")
            titles.append(box.locator("h2").inner_text())
            assert page.locator(".tour-target").count() == 1, titles[-1]
            last = box.get_by_role("button", name="Done")
            if last.count():
                last.click()
                break
            box.get_by_role("button", name="Next").click()
        drawn(page)
        assert len(titles) == len(set(titles)) == 9
        expect(page.locator(".tour")).to_have_count(0)


def test_keys_alone_reach_every_view(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("tab", name="Start").focus()
        for view in (*VIEWS[1:], "start"):
            page.keyboard.press("ArrowRight")
            drawn(page)
            assert choice(page).get("view", "start") == view
            assert page.evaluate("() => document.activeElement.id") == f"tab-{view}"


def test_the_skip_link_keeps_the_selection(opened: Open) -> None:
    with opened("view=groups&episode=1") as page:
        page.locator("a.skip").focus()
        page.keyboard.press("Enter")
        drawn(page)
        assert choice(page) == {"view": "groups", "episode": "1"}
        assert page.evaluate("() => document.activeElement.id") == "view"


def test_keys_alone_lead_through_the_tour(opened: Open) -> None:
    with opened() as page:
        page.get_by_role("button", name="Take the tour").press("Enter")
        drawn(page)
        assert page.evaluate("() => document.activeElement.closest('.tour') !== null")
        page.get_by_role("button", name="Next").press("Enter")
        drawn(page)
        page.get_by_role("button", name="Back").press("Enter")
        drawn(page)
        assert page.evaluate("() => document.activeElement.closest('.tour') !== null")
        page.keyboard.press("Escape")
        drawn(page)
        expect(page.locator(".tour")).to_have_count(0)
        assert page.evaluate("() => document.activeElement.id") == "start-tour"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("view=comparison", "This page shows what training learned from"),
        ("view=groups&role=nowhere", "Group sizes"),
        ("view=formulas&token=99999", "What the token adds"),
    ],
)
def test_places_that_the_page_does_not_have_lead_to_one_that_it_has(
    opened: Open, trace: dict[str, Any], address: str, expected: str
) -> None:
    turn = next(each["turn"] for each in trace["tokens"] if each["passes"])
    with opened(f"{address}&turn={turn}") as page:
        expect(page.locator("#view")).to_contain_text(expected)
        assert page.locator(".tabs [aria-selected=true]").count() == 1
        assert "Infinity" not in page.locator("#view").inner_text()
        if "groups" in address:
            assert page.locator(".chart-dot").count() > 0


def test_a_browser_that_cannot_unpack_an_update_says_so(browser: Browser, written: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(written.as_uri())
    drawn(page)
    expect(page.locator("#view")).to_contain_text("Open the page in a newer browser")
    page.close()


def test_a_run_without_updates_in_detail_says_why_its_questions_are_off(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=2)
    shutil.rmtree(run / "traces")
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    for view in VIEWS:
        with opened(f"view={view}", file=page_file) as page:
            if view == "start":
                expect(page.get_by_text("The questions need an update in detail")).to_be_visible()
            elif view != "pitfalls":
                expect(page.get_by_text(re.compile("Which country carried"))).to_be_visible()


def test_an_update_in_which_nothing_was_learned_says_so(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=1)
    path = next(iter(trace_files(run / "traces").values()))
    columns = read_trace(path)
    columns["turns"]["reward"] = [0.0] * len(columns["turns"]["reward"])
    columns["returns"] = [0.0] * len(columns["returns"])
    columns["advantages"] = [0.0] * len(columns["advantages"])
    path.write_bytes(gzip.compress(json.dumps(columns).encode()))
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    with opened(file=page_file) as page:
        page.get_by_role("button", name="Which country carried this update?").click()
        drawn(page)
        expect(page.locator("#carried")).to_contain_text("Nothing carried update 1: all its advantages are 0.")
        page.get_by_role("tab", name="Start").click()
        drawn(page)
        page.get_by_role("button", name="Why did this good game get a negative advantage?").click()
        drawn(page)
        expect(page.locator("#verdict")).to_contain_text("No sample of this update has a negative advantage")


def test_the_focus_stays_where_one_pressed(opened: Open) -> None:
    with opened("view=course") as page:
        reader = page.locator("#view [role=slider]").nth(1)
        reader.focus()
        name = reader.get_attribute("aria-label")
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        drawn(page)
        page.wait_for_function("() => document.activeElement !== document.body")
        assert choice(page)["update"] == "1"
        assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == name
        assert page.locator("#view [role=slider]").nth(1).evaluate("(node) => node === document.activeElement")


def test_a_page_of_a_long_run_is_small_enough(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=500, detailed=2)
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    assert page_file.stat().st_size < 6_000_000
    with opened("view=course", file=page_file) as page:
        assert page.locator(".chart-svg").count() > 6
        versions = page.evaluate("() => detailedVersions(runs[0])")
        assert versions[-1] == 500
        assert len(versions) > 50


def test_the_demo_of_the_package_is_a_small_page(tmp_path: Path, opened: Open) -> None:
    page_file = write_explorer(Path("demo"), tmp_path / "demo.html", lambda name, steps: lambda done: None)
    assert page_file.stat().st_size < 2_000_000
    for view in VIEWS:
        with opened(f"view={view}", file=page_file) as page:
            expect(page.locator("#title")).to_have_text("demo")
    with opened("view=groups", file=page_file) as page:
        expect(page.get_by_text("they are those that the run recorded")).to_be_visible()
        page.locator("select[data-key=Strategy]").select_option("auto")  # its episodes have numbers to make clusters of
        drawn(page)
        assert page.locator(".notice.warning").count() == 0


def test_hostile_names_stay_text(tmp_path: Path, opened: Open) -> None:
    run = traced_run(tmp_path / "run", updates=1)
    path = next(iter(trace_files(run / "traces").values()))
    text = gzip.decompress(path.read_bytes()).decode()
    evil = "<img src=x onerror=alert(1)>"
    columns = json.loads(text.replace('"FRANCE"', json.dumps(evil)).replace("S1901M", "</script><b>x</b>"))
    path.write_bytes(gzip.compress(json.dumps(columns).encode()))
    page_file = write_explorer(run, None, lambda name, steps: lambda done: None)
    for view in VIEWS:
        with opened(f"view={view}&episode=1&turn=5", file=page_file) as page:
            assert page.locator("img").count() == 0
            assert page.locator("#view b").count() == 0
