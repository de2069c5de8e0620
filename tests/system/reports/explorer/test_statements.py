"""Sentences of the explorer's page that state a fact hold only where the fact does."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.system.reports.explorer.pages import Open, drawn

pytestmark = pytest.mark.system

PLAIN: dict[str, Any] = {
    "loss_type": "grpo", "importance_sampling_level": "token", "delta": None, "decoupled": False,
    "off_policy_mask_threshold": None, "entropy_coef": 0, "normalizer": "auto", "epsilon": 0.2, "epsilon_high": 0.2,
    "beta": 0.04, "kl_estimator": "k3", "use_bias_correction_kl": False, "top_advantage_quantile": 1,
    "max_completion_length": None, "importance_sampling_mode": None,
}  # fmt: skip
DIFFERENCES = """([learner, baseline, ablations]) => differences({
  rows: { settings: learner }, choice: { ...FIRST_CHOICE, ablations }, trace: { learner },
  judged: { settings: { grouping: { baseline, gradient_surgery: "none" } } } }).textContent"""


def test_only_plain_grpo_is_called_so(opened: Open) -> None:
    with opened("view=formulas") as page:

        def said(changes: dict[str, Any], ablations: str = "") -> str:
            text: str = page.evaluate(DIFFERENCES, [{**PLAIN, **changes}, "mean", ablations])
            return text

        assert said({}) == "This is plain GRPO's loss."
        for changes, expected in (
            ({"normalizer": "episode"}, "normaliser by episode"),
            ({"epsilon": 0.5, "epsilon_high": 0.5}, "epsilon = 0.5 and epsilon_high = 0.5"),
            ({"epsilon_high": 0.28}, "epsilon_high = 0.28"),
            ({"beta": 1.5}, "beta = 1.5"),
            ({"beta": 0}, "no KL penalty"),
            ({"kl_estimator": "k2"}, "KL by k2"),
            ({"use_bias_correction_kl": True}, "corrected by the ratio"),
            ({"top_advantage_quantile": 0.3}, "the largest 30 % of the advantages alone"),
            ({"delta": 3.0}, "delta = 3 (plain GRPO: off)"),
            ({"decoupled": True}, "decoupled = true"),
            ({"entropy_coef": 0.01}, "entropy_coef = 0.01"),
            ({"importance_sampling_level": "sequence"}, "importance_sampling_level = sequence"),
            ({"loss_type": "rloo"}, "RLOO needs the baseline"),
        ):
            assert expected in said(changes), changes
            assert "This is plain" not in said(changes)
        assert "taken as 1" in said({}, "ratio")


def test_advantages_that_vanish_do_not_agree(opened: Open) -> None:
    with opened("view=advantages") as page:
        found = page.evaluate(
            """() => {
              const judgement = (advantages) => ({ problem: null, samples: advantages, advantages });
              const one = judgement([1, -1, 0.5, 0, 2]);
              return [agreementOf(one, judgement([0, 0, 0, 0, 0])), agreementOf(one, judgement([2, 1, 1, 0, 4]))];
            }"""
        )
    assert {name: found[0][name] for name in ("changed", "same", "lost", "zero")} == {
        "changed": [], "same": 0, "lost": 4, "zero": 1}  # fmt: skip
    assert {name: found[1][name] for name in ("changed", "same", "lost", "gained", "zero")} == {
        "changed": [1], "same": 3, "lost": 0, "gained": 0, "zero": 1}  # fmt: skip


def test_gradients_of_two_strategies_count_tokens_and_their_weights(opened: Open) -> None:
    with opened("view=advantages") as page:
        found, expected = page.evaluate(
            """async () => {
              const trace = await traceOf(runs[0], nearestVersion(runs[0], null));
              const judged = ["trained", "role"].map((id) => judgedBy(id, FIRST_CHOICE, runs[0], trace));
              const slopes = judged.map((each) => {
                const weights = weightsOfTurns(trace, each.settings.learner, 0);
                return trace.turns.trained.flatMap((count, turn) => new Array(count).fill(
                  -weights[turn] * each.advantages[each.sample_of_turn[turn]]));
              });
              const product = (one, other) => one.reduce((sum, value, place) => sum + value * other[place], 0);
              const [left, right] = slopes;
              return [gradientAgreement(...judged, trace), {
                cosine: product(left, right) / Math.sqrt(product(left, left) * product(right, right)),
                magnitude: Math.sqrt(product(right, right) / product(left, left)) }];
            }"""
        )
    assert found == pytest.approx(expected, rel=1e-9)
    assert 0.1 < found["cosine"] < 0.999


@pytest.mark.parametrize(
    ("returns", "members", "level", "reason"),
    [
        ([1, 2, 3], [0, 1, 2], "country", "that is exactly what its group"),
        ([2, 2, 2], [0, 1, 2], "country", "has no other value"),
        ([1, 2, 3], [1], "country", "has no other value"),
        ([1, 2, 3], [1], "running", "exactly its role's running mean"),
    ],
)
def test_an_advantage_of_0_has_its_own_reason(
    opened: Open, returns: list[float], members: list[int], level: str, reason: str
) -> None:
    with opened("view=formulas") as page:
        text = page.evaluate(
            """([returns, members, level]) => zeroReason({ judged: { returns, groupOfSample: [0, 0, 0],
              statistics: [{ zero_variance: level === "running" || areAllEqual(pick(returns, members)) }],
              groups: [{ level, members }] } }, 1, "F")""",
            [returns, members, level],
        )
    assert reason in text


def minus(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("\u2212", "-"))


def test_the_weight_and_a_turns_ratio_follow_from_the_numbers_beside_them(opened: Open) -> None:
    with opened("view=start") as page:
        page.get_by_role("button", name="Why did this good game get a negative advantage?").click()
        drawn(page)
        weight = filled(page, "Normaliser")
        found = re.fullmatch(r"weight = 1 / \((\d+) · (\d+)\) = ([\d.]+)", weight)
        assert found is not None, weight
        assert minus(found[3]) == pytest.approx(1 / (int(found[1]) * int(found[2])), rel=5e-3)
        page.get_by_label("Normaliser").select_option("token")
        drawn(page)
        found = re.fullmatch(r"weight = 1 / (\d+) = ([\d.]+)", filled(page, "Normaliser"))
        assert found is not None
        assert minus(found[2]) == pytest.approx(1 / int(found[1]), rel=5e-3)
        page.get_by_label("Normaliser").select_option("batch_token")
        drawn(page)
        found = re.fullmatch(r"weight = 1 / ([\d.]+) = ([\d.]+)", filled(page, "Normaliser"))
        assert found is not None
        assert minus(found[2]) == pytest.approx(1 / float(found[1]), rel=5e-3)
        page.get_by_label("Loss").select_option("rloo")
        drawn(page)
        ratio = filled(page, "Importance ratio")
        found = re.match(r"sum over the turn: log ρ = (\S+), ρ = (\S+); this token alone: ", ratio)
        assert found is not None, ratio
        assert minus(found[2]) == pytest.approx(math.exp(minus(found[1])), rel=5e-3)


def filled(page: Page, title: str) -> str:
    """A step's formula with its numbers."""
    step = page.locator(".step", has=page.get_by_role("heading", name=title, exact=True))
    return step.locator(".filled").inner_text()


def test_what_is_as_in_training_again_is_not_called_changed(opened: Open) -> None:
    with opened("view=formulas") as page:
        changed = page.get_by_text("You changed the grouping or the loss")
        for label, other in (("Loss", "dapo"), ("Normaliser", "episode")):
            own = page.get_by_label(label, exact=True).input_value()
            page.get_by_label(label, exact=True).select_option(other)
            drawn(page)
            expect(changed).to_be_visible()
            page.get_by_label(label, exact=True).select_option(own)
            drawn(page)
            expect(changed).to_have_count(0)


def test_a_weighting_without_effect_says_why(opened: Open) -> None:
    with opened("view=groups") as page:
        why = page.get_by_text("All weights are 1 here")
        expect(why).to_have_count(0)  # this run weighs by performance
        page.get_by_label("balanced").check()
        drawn(page)
        expect(why).to_contain_text("all groups by country have equally many episodes")
        found = page.evaluate(
            """() => [["role", [1, 1], 2], ["role", [2, 0.5], 2], ["none", [1, 1], 2], ["role", [1, 1], 1]].map(
              ([id, weightOfSample, max_group_weight]) => evenWeights({ judged: { weightOfSample, strategy: { id },
                settings: { grouping: { group_weights: "adaptive", weight_key: "country", min_group_weight: 0.5,
                  max_group_weight } } } }))"""
        )
    assert "which a run keeps only if it trains with a weighting" in found[0]
    assert found[1] is None
    assert found[2] is None
    assert "allow no others" in found[3]


def test_an_address_that_names_the_runs_own_settings_is_no_change(opened: Open) -> None:
    with opened("view=groups&loss=grpo&shrinkage=false&weights=performance") as page:
        expect(page.get_by_text("You changed the grouping or the loss")).to_have_count(0)
        page.locator("summary", has_text="Baseline, scale and returns").click()
        for label in ("leave one out", "mean"):
            page.get_by_label(label, exact=True).check()
            drawn(page)
            expect(page.get_by_label(label, exact=True)).to_be_visible()  # its panel stays open
        expect(page.get_by_text("You changed the grouping or the loss")).to_have_count(0)


def test_a_return_is_the_best_only_if_none_is_higher(opened: Open) -> None:
    with opened("view=formulas") as page:
        said = page.evaluate(
            """() => [...[5, 4, 1].map((value) => rankInWords([1, ...new Array(997).fill(3), 4, 5], value,
              value === 1 ? 0 : 0.998)), rankInWords([1, 1, 0], 1, 1 / 3), rankInWords([2, 2], 2, 0)]"""
        )
    assert said == ["the best of this update", "better than 99 % of this update's samples", "the lowest of this update",
                    "the best of this update, as is one other", "that of all samples of this update"]  # fmt: skip
