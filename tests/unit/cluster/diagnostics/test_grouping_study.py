"""The grouping study, on synthetic games with a known answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import dump_config, load_config
from cluster.diagnostics import grouping_study
from cluster.diagnostics.grouping_study import compare_ways, gradient_kinds, measure_grouping, plain_quality
from cluster.runs.folder import FORMAT
from grpo_core.gradients.quality import Interval, TurnScores
from grpo_core.models.pretrained import save_model
from grpo_core.types import Episode, Turn

ROLES = ("AUSTRIA", "FRANCE", "TURKEY")
BATCHES, EPISODES, SIZE = 60, 24, 6  # episodes a batch: 8 a role, 4 a line-up


def turn(reward: float, phase: str) -> Turn:
    ids = np.array([1], np.int32)
    return Turn(
        prompt_ids=ids,
        completion_ids=ids,
        logprobs=np.zeros(1, np.float32),
        trained_mask=np.ones(1, np.bool_),
        admissible_ids=np.array([1, 2], np.int32),
        admissible_offsets=np.array([0, 2], np.int32),
        policy_version=0,
        temperature=1.0,
        phase=phase,
        reward=reward,
        keys={"phase": phase, "segment": "opening", "own_centers": 3},
    )


@pytest.fixture(scope="module")
def rows():
    """A role earns 0, 6 or 12 and a line-up 3 more, whatever the actions; an action along the first axis earns 1."""
    rng = np.random.default_rng(0)
    episodes, scores = [], []
    for index in range(BATCHES * EPISODES):
        role, lineup = index % 3, index // 3 % 2
        score = rng.choice([-1.0, 1.0], SIZE)  # of a coin for each axis: its mean is zero
        reward = 6.0 * role + 3.0 * lineup + score[0] + rng.normal() * 0.5
        scores.append(score)
        episodes.append(
            Episode(
                episode_id=f"e{index}",
                task="made up",
                role=ROLES[role],
                block_id="b",
                block_size=1,
                keys={"country": ROLES[role], "lineup": str(lineup), "fork": str(index // 12 % 2) + str(lineup)},
                turns=(turn(reward, "S1901M"),),
                reward=reward,
                reward_parts={},
                outcome={},
                seed=0,
            )
        )
    table = np.array(scores, np.float32)
    batch_of = np.arange(len(episodes)) // EPISODES
    found = {}
    for kind in gradient_kinds("per_phase"):
        if kind.tokens == "sum":
            lengths = np.ones(len(table), np.int64)
            compared = compare_ways(episodes, batch_of, TurnScores(table, table), lengths, kind, 0.85)
            found |= {(kind.returns, str(method)): quality for method, quality in compared.items()}
    return found


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_finer_groups_have_less_noise_if_they_explain_the_return(rows, returns):
    effective = [rows[returns, way].effective_samples for way in ("none", "batch", "country", "country+lineup")]
    assert effective[1].value == pytest.approx(1)  # the yardstick
    for coarser, finer in pairwise(effective):
        assert finer.value > 1.3 * coarser.value
    assert effective[-1].low > effective[0].high


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_a_group_mean_baseline_shrinks_the_gradient_and_keeps_its_direction(rows, returns):
    quality = rows[returns, "country+lineup"]  # groups of 4: the mean holds a quarter of the sample itself
    assert quality.slope.value == pytest.approx(0.75, abs=0.02)
    assert quality.cosine.value == pytest.approx(1, abs=0.01)
    assert quality.bias.value == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_grouping_by_the_outcome_removes_signal(rows, returns):
    leak, honest = rows[returns, "country+return_quartile"], rows[returns, "country"]
    assert leak.slope.high < honest.slope.low
    assert leak.bias.low > honest.bias.high
    assert leak.sign_agreement.value < honest.sign_agreement.value - 0.02


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_leave_one_out_removes_the_shrinkage(rows, returns):
    quality = rows[returns, "country+fork, left-out"]
    assert quality.slope.value == pytest.approx(1, abs=0.1)
    assert rows[returns, "country+fork"].slope.high < 0.7  # groups of two
    assert quality.bias.low == 0 < rows[returns, "country+fork"].bias.low


def test_a_row_has_none_for_values_below_the_noise(rows):
    quality = rows["per_phase", "country"]
    assert plain_quality(quality)["drowned"] == 0
    plain = plain_quality(replace(quality, bias=Interval(0.5, np.nan, np.inf), drowned=0.25))
    assert plain["bias"] == {"value": 0.5, "low": None, "high": None}
    assert plain["drowned"] == 0.25
    assert plain["slope"]["value"] == quality.slope.value


OWN_SETTINGS = (
    "game.until_year=1902", "game.reward={'centers' = 3.0}", "learner.returns=segment", "learner.discount=0.5",
    "inference.max_completion_length=32", "inference.temperature=0.5",
    "policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32",
)  # fmt: skip


@pytest.mark.parametrize("given", ["run", "checkpoint"])
def test_a_run_is_studied_under_its_own_settings(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("smoke", OWN_SETTINGS)
    (tmp_path / "config.toml").write_text(dump_config(config))
    (tmp_path / "run_id").write_text("run-0f\n")
    (tmp_path / "format").write_text(f"{FORMAT}\n")
    checkpoint = tmp_path / "checkpoints" / "0"
    save_model(*make_policy(config.policy, config.run.seed, config.world.language), checkpoint)
    monkeypatch.setattr(grouping_study, "latest_checkpoint", lambda folder: checkpoint if folder == tmp_path else None)
    monkeypatch.setattr(grouping_study, "BATCH_BLOCKS", 1)
    played: list[Episode] = []
    discounts: list[float] = []
    real_turns, real_returns = grouping_study.training_turns, grouping_study.sample_returns

    def turns_of(episodes: list[Episode], version: int) -> object:
        played.extend(episodes)
        return real_turns(episodes, version)

    def returns_of(episodes: list[Episode], returns: str, discount: float) -> object:
        discounts.append(discount)
        return real_returns(episodes, returns, discount)  # type: ignore[arg-type]

    monkeypatch.setattr(grouping_study, "training_turns", turns_of)
    monkeypatch.setattr(grouping_study, "sample_returns", returns_of)
    found = measure_grouping(tmp_path if given == "run" else checkpoint, 4, 0, quiet)
    assert len(played) == 16
    assert {episode.outcome["final_year"] for episode in played} <= {1901.0, 1902.0}
    assert [episode.reward for episode in played] == [3 * episode.reward_parts["centers"] for episode in played]
    turns = [turn for episode in played for turn in episode.turns]
    assert max(len(turn.completion_ids) for turn in turns) <= 32
    assert {turn.temperature for turn in turns} == {0.5}
    assert set(discounts) == {0.5}
    assert {row["returns"] for row in found["rows"]} == {"segment", "episode"}
    assert (found["until_year"], found["discount"], found["reward"]) == (1902, 0.5, {"centers": 3.0})


def quiet(name: str, steps: int) -> Callable[[int], None]:
    return lambda done: None
