"""The explorer's arithmetic in a real Chromium, against grpo_core."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.errors import DivergenceError, GroupingError
from grpo_core.settings import GroupingSettings, LearnerSettings
from services.reports.page import asset, page, write_page
from tests.system.reports.explorer.golden_batches import GoldenBatch, episodes_of, golden_batch
from tests.system.reports.explorer.random_batches import (
    CLUSTERED,
    LOSS_TYPES,
    MODES,
    NORMALIZERS,
    STRATEGIES,
    random_batch,
)
from tests.system.reports.test_pages import LAPTOP, Visit

pytestmark = pytest.mark.system


FOLDER = "explorer/arithmetic"
BATCHES = 1000
BATCHES_AT_ONCE = 50
TOLERANCE = 1e-9  # relative to a number or, where it is larger, to the batch's largest of its kind, at most 1
FOUND = """
const spelled = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);

function found({ batch, settings, tokens, step, share }) {
  const result = computeAdvantages(batch, settings);
  const { table, returns } = samplesAndReturns(batch, settings);
  const { learner, grouping } = settings;
  const { trained } = batch.turns;
  const owners = sampleOfTurn(batch, "episode");
  const kinds = ["token", "batch_token", "turn", "episode", "max_completion_length"];
  const weights = Object.fromEntries(kinds.map((kind) => [kind, turnTokenWeights(kind, trained, owners, step)]));
  const losses = tokenLosses(tokens, learner);
  const each = (name) => losses.map((token) => token[name]);
  const inForce = result.sample_of_turn.map((sample) => result.advantages[sample]);
  return {
    result,
    ungrouped: computeUngrouped(batch, settings).advantages,
    largest: largestShare(inForce, share),
    token_weights: { ...weights, named: turnTokenWeights(namedNormalizer(learner), trained, owners, step) },
    losses: Object.fromEntries(Object.keys(losses[0]).map((name) => [name, each(name)])),
    chain: shareExplainedByChain(table, returns, grouping),
  };
}
"""


class Deviations:
    """The largest deviation of each kind of number, and the batch that has it."""

    def __init__(self) -> None:
        self.largest: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, "none"))

    def add(self, kind: str, batch: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
        """Compare numbers, where infinities and no-numbers may be spelled and None stands for no number at all."""
        assert len(found) == len(expected), f"{kind} of {batch}"
        assert [each is None for each in found] == [each is None for each in expected], f"{kind} of {batch}"
        pairs = zip(found, expected, strict=True)
        rows = np.array([(float(left), float(right)) for left, right in pairs if right is not None]).reshape(-1, 2)
        left, right = rows.T
        with np.errstate(invalid="ignore"):
            sizes = np.abs(right[np.isfinite(right)])
            scale = min(1.0, float(sizes.max(initial=0.0))) or 1.0
            gaps = np.abs(left - right) / np.maximum(scale, np.abs(right))
        gaps[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        gaps[np.isnan(gaps)] = math.inf
        self.largest[kind] = max(self.largest[kind], (float(gaps.max(initial=0.0)), batch))

    def __str__(self) -> str:
        largest_first = sorted(self.largest.items(), key=lambda item: -item[1][0])
        return "\n".join(f"{kind}: {gap:.3g} in {batch}" for kind, (gap, batch) in largest_first)


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    names = [each.name for each in files("services.reports").joinpath(FOLDER).iterdir()]
    scripts = [asset(f"{FOLDER}/{name}") for name in sorted(names) if name.endswith(".js")]
    text = page("Arithmetic", "", styles="", data={}, scripts=[*scripts, FOUND])
    with Visit(browser, write_page(tmp_path_factory.mktemp("arithmetic") / "page.html", text), LAPTOP) as visited:
        yield visited


def found_in_browser(opened: Page, batches: Sequence[GoldenBatch]) -> list[dict[str, Any]]:
    given = json.dumps([batch.given for batch in batches], allow_nan=False)
    answer = opened.evaluate("(given) => JSON.stringify(JSON.parse(given).map(found), spelled)", given)
    out: list[dict[str, Any]] = json.loads(answer)
    return out


def compare(batch: GoldenBatch, found: dict[str, Any], deviations: Deviations) -> None:
    name, expected, result = batch.name, batch.expected, found["result"]
    statistics = result["statistics"]
    assert [each["role"] for each in result["samples"]] == expected["roles"], name
    assert [each["episode"] for each in result["samples"]] == expected["owners"], name
    of_turns = batch.given["settings"]["learner"]["returns"] != "episode"
    assert [each["turn"] for each in result["samples"]] == [
        place if of_turns else None for place in range(len(expected["roles"]))
    ], name
    assert result["groups"] == expected["groups"], name
    assert result["sample_of_turn"] == expected["sample_of_turn"], name
    assert [each["zero_variance"] for each in statistics] == expected["zero_variance"], name
    assert set(result["weights"]) == set(expected["weights"]), name
    assert found["losses"]["clipped"] == expected["losses"]["clipped"], name
    numbers = {
        "returns": (result["returns"], expected["returns"]),
        "means": ([each["mean"] for each in statistics], expected["means"]),
        "deviations": ([each["std"] for each in statistics], expected["deviations"]),
        "shares": ([each["share"] for each in statistics], expected["shares"]),
        "baselines": ([value for each in statistics for value in each["baselines"]], expected["baselines"]),
        "advantages": (result["advantages"], expected["advantages"]),
        "group weights": ([result["weights"][key] for key in expected["weights"]], list(expected["weights"].values())),
        "advantages without groups": (found["ungrouped"], expected["ungrouped"]),
        "largest advantages": (found["largest"], expected["largest"]),
        "variance explained by the chain": ([found["chain"]], [expected["chain"]]),
    }
    for kind, weights in expected["token_weights"].items():
        numbers[f"token weights, {kind}"] = (found["token_weights"][kind], weights)
    losses, sound = expected["losses"], expected["losses"]["sound"]
    for part in ("loss", "logRatio", "importance", "kl", "surrogate"):
        values = found["losses"][part]
        numbers[f"losses, {part}"] = (values, [None] * len(values) if losses[part] is None else losses[part])
    slopes = found["losses"]["slope"], losses["slope"]
    numbers["losses, slope"] = ([slopes[0][token] for token in sound], [slopes[1][token] for token in sound])
    for kind, (left, right) in numbers.items():
        deviations.add(kind, name, left, right)


def test_a_thousand_random_batches_agree_with_the_learner(opened: Page) -> None:
    deviations = Deviations()
    seen: dict[str, set[Any]] = defaultdict(set)
    for start in range(0, BATCHES, BATCHES_AT_ONCE):
        batches = [golden_batch(number) for number in range(start, start + BATCHES_AT_ONCE)]
        for batch, found in zip(batches, found_in_browser(opened, batches), strict=True):
            compare(batch, found, deviations)
            for name, value in (option for part in batch.given["settings"].values() for option in part.items()):
                seen[name].add(tuple(value) if isinstance(value, list) else value)
            seen["clipped"].update(batch.expected["losses"]["clipped"])
            seen["level"].update(group["level"] for group in batch.expected["groups"])
            seen["zero variance"].update(batch.expected["zero_variance"])
    assert all(gap <= TOLERANCE for gap, _ in deviations.largest.values()), f"\n{deviations}"
    assert seen["keys"] >= {each.keys for each in (*STRATEGIES, *CLUSTERED)}
    for name, values in EVERY_VALUE.items():
        assert seen[name] >= set(values), name


EVERY_VALUE: dict[str, tuple[Any, ...]] = {
    "clipped": ("low", "high", "dual", None),
    "level": ("running",),
    "zero variance": (True, False),
    "returns": ("episode", "per_phase", "segment"),
    "scale_rewards": ("group", "batch", "none"),
    "baseline": ("mean", "leave_one_out"),
    "shrinkage": (True, False),
    "opponent_adjusted": (True, False),
    "group_weights": ("none", "balanced", "performance", "adaptive"),
    "loss_type": LOSS_TYPES,
    "importance_sampling_level": ("token", "sequence"),
    "normalizer": ("auto", *NORMALIZERS),
    "kl_estimator": ("k1", "k2", "k3"),
    "use_bias_correction_kl": (True, False),
    "importance_sampling_mode": (None, *MODES),
    "off_policy_mask_threshold": (None, 0.05, 1.0),
    "delta": (None, 2.5, 10.0),
}


@pytest.mark.parametrize(
    ("learner", "grouping", "facts"),
    [
        ({}, {"keys": ["country+nothing"]}, {}),
        ({}, {"keys": ["country+seldom"]}, {}),
        ({}, {"keys": ["phase"]}, {}),
        ({}, {"keys": ["country:2"]}, {}),
        ({}, {"keys": ["country++phase"]}, {}),
        ({}, {"keys": ["country+start_year+start_year:2"]}, {}),
        ({}, {"keys": ["country+start_year:1"]}, {}),
        ({}, {"keys": ["country+start_year:two"]}, {}),
        ({}, {"keys": ["country+auto:2"]}, {}),
        ({}, {"keys": ["country+centers"]}, {}),
        ({}, {"keys": ["country+own_centers:2"]}, {}),
        ({}, {"keys": ["country+lineup:2"]}, {}),
        ({}, {"keys": ["country+fork:2"]}, {}),
        ({}, {"keys": ["country+phase", "country+lineup"], "shrinkage": True}, {}),
        ({}, {"keys": ["country"], "group_weights": "balanced", "weight_key": "country+nothing"}, {}),
        ({"returns": "episode"}, {"keys": ["country+phase"]}, {}),
        ({"returns": "segment"}, {"keys": ["country"]}, {"segment": None}),
        ({}, {"keys": ["country"], "opponent_adjusted": True}, {"expected_return": None}),
        ({}, {"keys": ["country"], "opponent_adjusted": True}, {"expected_return": "high"}),
        ({}, {"keys": ["country"]}, {"reward": 1e300}),
    ],
)
def test_what_the_learner_refuses_is_refused_in_one_sentence(
    opened: Page, learner: dict[str, Any], grouping: dict[str, Any], facts: dict[str, Any]
) -> None:
    batch = random_batch(np.random.default_rng(7), "country")
    for name, value in facts.items():
        for part in (batch["turns"], batch["turns"]["facts"], batch["episodes"]["facts"]):
            if name in part:
                part[name] = [value] * len(part[name])
    settings = (LearnerSettings(**learner), GroupingSettings(**grouping))
    with pytest.raises((GroupingError, DivergenceError)), np.errstate(over="ignore"):
        compute_advantages(episodes_of(batch), *settings, {})
    plain = [part.model_dump(mode="json") for part in settings]
    message = opened.evaluate(
        """([batch, learner, grouping]) => {
          try {
            computeAdvantages(batch, { learner, grouping });
          } catch (error) {
            return error.constructor === Error ? error.message : `${error.stack}`;
          }
          return "nothing refused";
        }""",
        [batch, *plain],
    )
    assert message[0].isupper(), message
    assert message.endswith("."), message
    assert "\n" not in message
