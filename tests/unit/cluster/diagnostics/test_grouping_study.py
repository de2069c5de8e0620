"""The evidence on grouping, on made-up games in which the answer is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cluster.configs.schema import Config
from cluster.diagnostics.grouping_study import BLOCKS, judge_all_ways, plain_quality
from grpo_core.gradients.quality import Interval, TurnScores
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
    """A role earns 0, 6 or 12 and a line-up 3 more, whatever it does; an action along the first axis earns 1."""
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
    for block in BLOCKS:
        if block.tokens == "sum":
            lengths = np.ones(len(table), np.int64)
            for row in judge_all_ways(episodes, batch_of, TurnScores(table, table), lengths, block, Config()):
                found[block.returns, row.way] = row.quality
    return found


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_finer_groups_give_less_noise_where_they_explain_the_return(rows, returns):
    effective = [rows[returns, way].effective_samples for way in ("none", "batch", "country", "country+lineup")]
    assert effective[1].value == pytest.approx(1)  # the yardstick
    for coarser, finer in pairwise(effective):
        assert finer.value > 1.3 * coarser.value
    assert effective[-1].low > effective[0].high


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_a_group_s_own_mean_shrinks_the_gradient_and_turns_it_nowhere(rows, returns):
    quality = rows[returns, "country+lineup"]  # groups of 4: the mean holds a quarter of the sample itself
    assert quality.slope.value == pytest.approx(0.75, abs=0.02)
    assert quality.cosine.value == pytest.approx(1, abs=0.01)
    assert quality.bias.value == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_grouping_by_the_outcome_takes_the_signal_away(rows, returns):
    leak, honest = rows[returns, "country+return_quartile"], rows[returns, "country"]
    assert leak.slope.high < honest.slope.low
    assert leak.bias.low > honest.bias.high
    assert leak.sign_agreement.value < honest.sign_agreement.value - 0.02


@pytest.mark.parametrize("returns", ["per_phase", "episode"])
def test_leaving_the_judged_episode_out_takes_the_shrinkage_away(rows, returns):
    quality = rows[returns, "left-out country+fork"]
    assert quality.slope.value == pytest.approx(1, abs=0.1)
    assert rows[returns, "country+fork"].slope.high < 0.7  # groups of two
    assert quality.bias.low == 0 < rows[returns, "country+fork"].bias.low


def test_a_row_tells_what_drowned_in_noise(rows):
    quality = rows["per_phase", "country"]
    assert plain_quality(quality)["drowned"] == 0
    told = plain_quality(replace(quality, bias=Interval(0.5, np.nan, np.inf), drowned=0.25))
    assert told["bias"] == {"value": 0.5, "low": None, "high": None}
    assert told["drowned"] == 0.25
    assert told["slope"]["value"] == quality.slope.value
