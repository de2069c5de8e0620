import numpy as np
import pytest

from grpo_core.advantages.grouping import Sample
from grpo_core.advantages.returns import opponent_adjusted, returns_to_go, sample_returns, segment_returns
from grpo_core.errors import GroupingError
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn


def turns_with(rewards: list[float], elapsed: list[int]):
    rng = np.random.default_rng(0)
    return tuple(
        ragged_turn(rng, reward=reward, elapsed_phases=phases) for reward, phases in zip(rewards, elapsed, strict=True)
    )


def test_returns_are_discounted_once_per_elapsed_phase():
    rewards, elapsed = [1.0, -2.0, 3.0, 0.5], [1, 3, 2, 1]
    expected = []
    for start in range(4):
        total, clock = 0.0, 0
        for turn in range(start, 4):
            total += 0.9**clock * rewards[turn]
            clock += elapsed[turn]
        expected.append(total)
    assert returns_to_go(turns_with(rewards, elapsed), 0.9) == pytest.approx(expected, rel=1e-6)


def test_samples_are_episodes_or_their_turns_in_order():
    one = episode_of(turns_with([1, 1], [1, 1]), reward=7.0)
    two = episode_of(turns_with([4], [1]), reward=9.0)
    assert sample_returns([one, two], "per_phase", 0.5).tolist() == [1.5, 1, 4]
    assert sample_returns([one, two], "episode", 0.5).tolist() == [7, 9]
    assert sample_returns([one, two], "episode", 0.5).dtype == np.float32


def test_negative_elapsed_phases_are_refused():
    with pytest.raises(ValueError, match="elapsed_phases -1"):
        returns_to_go(turns_with([1], [-1]), 0.9)


def segmented(rewards, segments):
    rng = np.random.default_rng(0)
    return tuple(
        ragged_turn(rng, reward=reward, keys={"segment": name}) for reward, name in zip(rewards, segments, strict=True)
    )


def test_segment_returns_sum_rewards_to_the_end_of_the_segment():
    turns = segmented([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], ["o", "o", "m", "m", "m", "e"])
    assert segment_returns(turns).tolist() == [3, 2, 28, 24, 16, 32]
    one, other = episode_of(turns[:2]), episode_of(turns[1:3])
    assert sample_returns([one, other], "segment", 0.5).tolist() == [3, 2, 2, 4]


def test_segment_returns_of_a_single_segment_equal_undiscounted_returns_to_go():
    turns = segmented([1.0, -2.0, 0.5], ["o"] * 3)
    assert segment_returns(turns).tolist() == returns_to_go(turns, 1.0).tolist()
    assert len(segment_returns(())) == 0


def test_segment_returns_refuse_turns_without_a_segment():
    turns = (*segmented([1.0], ["o"]), ragged_turn(np.random.default_rng(0), keys={"phase": "S1901M"}))
    with pytest.raises(GroupingError, match="turn 1"):
        segment_returns(turns)


def test_opponent_adjustment_subtracts_the_expected_return():
    samples = [Sample("A", 0, {"country": "A", "expected_return": value}) for value in (2, 0.25)]
    assert opponent_adjusted(np.array([1.0, 1.0], np.float32), samples).tolist() == [-1, 0.75]


def test_a_missing_or_non_numeric_expected_return_is_refused():
    returns = np.zeros(1, np.float32)
    with pytest.raises(GroupingError, match=r"opponent_adjusted.*'expected_return'.*nearest: 'expected_retrun'"):
        opponent_adjusted(returns, [Sample("A", 0, {"country": "A", "expected_retrun": 1})])
    for wrong in ("high", float("nan"), float("inf")):
        with pytest.raises(GroupingError, match="a finite number"):
            opponent_adjusted(returns, [Sample("A", 0, {"country": "A", "expected_return": wrong})])
