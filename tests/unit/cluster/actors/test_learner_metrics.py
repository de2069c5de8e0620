"""The intervals of the countries' recent results."""

from __future__ import annotations

import random
from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np
import pytest

from cluster.actors.learner_metrics import catalogued, episode_columns, role_intervals, thought_lengths
from grpo_core.statistics.means import clustered_mean
from grpo_core.statistics.quantiles import student_t_quantile
from grpo_core.statistics.rates import wilson_score
from services.metrics.catalogue import check
from services.metrics.rolling_windows import EpisodeFacts, RoleWindows
from tests.measured import CHAIRS, DIPLOMACY
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn


def fact(centers: float, block: str, *, win: float = 0.0, survived: float = 1.0) -> EpisodeFacts:
    values = {"centers": centers, "win_rate": win, "top_rate": 0.0, "survival_rate": survived}
    return EpisodeFacts(reward=0.0, values=values, phases=10.0, block=block)


def intervals(window: list[EpisodeFacts], country: str = "FRANCE") -> dict[str, float]:
    return role_intervals({country: window}, DIPLOMACY)


def test_blocks_of_one_game_give_the_intervals_of_independent_games() -> None:
    window = [fact(float(number % 3), f"b{number}", win=float(number < 20)) for number in range(100)]
    found = intervals(window)
    check(found)
    assert len(found) == 8
    centers = [entry.values["centers"] for entry in window]
    mean = sum(centers) / 100
    half = student_t_quantile(0.975, 99) * (sum((value - mean) ** 2 for value in centers) / 99 / 100) ** 0.5
    assert found["entente_country_centers_low{country=FRANCE}"] == pytest.approx(mean - half)
    assert found["entente_country_centers_high{country=FRANCE}"] == pytest.approx(mean + half)
    # 20 of 100: Newcombe (Statistics in Medicine 17, 1998) has [0.133, 0.289]; t(99) widens it by 0.002.
    assert found["entente_country_win_rate_low{country=FRANCE}"] == pytest.approx(0.1334, abs=3e-3)
    assert found["entente_country_win_rate_high{country=FRANCE}"] == pytest.approx(0.2888, abs=3e-3)
    assert found["entente_country_survival_rate_high{country=FRANCE}"] == 1.0


def test_a_thought_is_what_was_sampled_without_a_mask_before_orders_with_one() -> None:
    rng = np.random.default_rng(0)
    turns = [ragged_turn(rng, thought=thought) for thought in (0, 1, 100)] + [ragged_turn(rng, free=True)]
    sampled = [int(turn.trained_mask.sum()) for turn in turns]
    assert thought_lengths([episode_of(tuple(turns))]) == [1, sampled[2]]


def test_one_block_has_no_interval() -> None:
    assert intervals([fact(3.0, "b"), fact(5.0, "b")]) == {}
    assert role_intervals({}, DIPLOMACY) == {}


@pytest.mark.parametrize(("correlation", "too_few"), [(0.21, 0.85), (0.67, 0.65)])
def test_intervals_cover_the_truth_when_games_of_a_block_are_correlated(correlation: float, too_few: float) -> None:
    """The correlations are those measured within blocks of mixed and of the same line-ups; the oldest block is cut."""
    draw = random.Random(3)
    truth = {"centers": 4.0, "win_rate": 0.3}
    held, independent = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    rounds = 300
    for _ in range(rounds):
        window = []
        for block, size in enumerate([4, *[8] * 12]):
            shared = draw.gauss()
            chance = draw.betavariate(0.3 * (1 / correlation - 1), 0.7 * (1 / correlation - 1))
            for _ in range(size):
                centers = 4 + 2 * (sqrt(correlation) * shared + sqrt(1 - correlation) * draw.gauss())
                window.append(fact(centers, f"b{block}", win=float(draw.random() < chance)))
        found = intervals(window)
        mean = clustered_mean([[entry.values["centers"]] for entry in window])
        assert mean is not None
        assert mean.interval is not None
        rate = wilson_score(fmean(entry.values["win_rate"] for entry in window), len(window))
        for name, (least, most) in (("centers", mean.interval), ("win_rate", rate)):
            low, high = (found[f"entente_country_{name}_{end}{{country=FRANCE}}"] for end in ("low", "high"))
            held[name] += low <= truth[name] <= high
            independent[name] += least <= truth[name] <= most
    for name in truth:
        assert 0.92 <= held[name] / rounds <= 0.99
        assert independent[name] / rounds < too_few


def test_games_that_repeat_their_block_widen_the_intervals() -> None:
    """Four equal games a block hold as much as one: the same interval as from a single game of each block."""
    single = [fact(float(block), f"b{block}", win=float(block < 3)) for block in range(8)]
    repeated = [entry for entry in single for _ in range(4)]
    one, four = intervals(single), intervals(repeated)
    assert four["entente_country_centers_low{country=FRANCE}"] == pytest.approx(
        one["entente_country_centers_low{country=FRANCE}"]
    )
    width = {name: found["entente_country_win_rate_high{country=FRANCE}"] for name, found in (("1", one), ("4", four))}
    assert width["4"] == pytest.approx(width["1"], abs=0.02)
    assert fmean(entry.values["centers"] for entry in repeated) == 3.5


@pytest.mark.parametrize("centers", [[0.0, 0.0, 34.0], [34.0, 34.0, 0.0], [0.0, 1.0, 4.0]])
def test_no_interval_of_centres_leaves_the_possible_range(centers: list[float]) -> None:
    found = intervals([fact(each, f"b{block}") for block, each in enumerate(centers)])
    low, high = (found[f"entente_country_centers_{end}{{country=FRANCE}}"] for end in ("low", "high"))
    assert 0 <= low <= fmean(centers) <= high <= 34


def test_another_worlds_intervals_stay_in_the_range_of_its_measures() -> None:
    windows = RoleWindows(CHAIRS)
    for number, chips in enumerate((-2.0, -2.0, 4.0)):
        outcome = {"chips": chips, "showdown": float(chips > 0), "bet": 1.0}
        windows.add(replace(episode_of(()), role="A", block_id=f"b{number}", outcome=outcome))
    found = role_intervals(windows.facts(), CHAIRS)
    check(found)
    assert found["entente_chair_chips_low{chair=A}"] == -2.0
    assert found["entente_chair_chips_high{chair=A}"] == 4.0
    assert len(found) == 6  # of what training follows


def test_an_updates_metrics_have_the_main_measure_by_role() -> None:
    episodes = [replace(episode_of(()), role="A", outcome={"chips": chips}) for chips in (1.0, 2.0)]
    metrics = {"clip_fraction_low": 0.25, "clip_fraction_high": 0.5}
    values = catalogued(metrics, {"group_weights": {}, "groups": ()}, episodes, CHAIRS)
    check(values)
    assert values == {"entente_clip_fraction": 0.75, "entente_batch_chips{chair=A}": 1.5}


def test_an_updates_episodes_are_parallel_lists_of_json_values() -> None:
    rng = np.random.default_rng(0)
    episodes = [
        replace(episode_of((ragged_turn(rng),), role=role), reward=reward, outcome=outcome)
        for role, reward, outcome in (
            ("FRANCE", 1.5, {"centers": 5.0, "solo": 0.0, "top": 1.0, "survived": 1.0, "phases": 12.0}),
            ("ITALY", float("nan"), {"centers": float("inf")}),
        )
    ]
    found = episode_columns(episodes, DIPLOMACY)
    assert found["roles"] == ["FRANCE", "ITALY"]
    assert found["rewards"] == [1.5, None]
    assert found["lengths"] == [12.0, 1.0]
    assert found["outcomes"] == {
        "centers": [5.0, None],
        "win_rate": [0.0, None],
        "top_rate": [1.0, None],
        "survival_rate": [1.0, None],
    }
    assert found["episodes"] == [episode.episode_id for episode in episodes]
