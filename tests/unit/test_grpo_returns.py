import numpy as np
import pytest

from grpo_core.returns import returns_to_go, sample_returns
from tests.unit.grpo_cases import episode_of, ragged_turn


def turns_with(rewards: list[float], elapsed: list[int]):
    rng = np.random.default_rng(0)
    return tuple(
        ragged_turn(rng, reward=reward, elapsed_phases=phases) for reward, phases in zip(rewards, elapsed, strict=True)
    )


def test_every_phase_between_decisions_is_discounted():
    rewards, elapsed = [1.0, -2.0, 3.0, 0.5], [1, 3, 2, 1]
    expected = []
    for start in range(4):
        total, clock = 0.0, 0
        for turn in range(start, 4):
            total += 0.9**clock * rewards[turn]
            clock += elapsed[turn]
        expected.append(total)
    assert returns_to_go(turns_with(rewards, elapsed), 0.9) == pytest.approx(expected, rel=1e-6)


def test_a_discount_of_one_gives_the_plain_sum_of_what_is_left():
    assert returns_to_go(turns_with([1, 2, 3], [5, 1, 2]), 1.0).tolist() == [6, 5, 3]


def test_samples_are_turns_in_episode_order_or_episodes():
    one = episode_of(turns_with([1, 1], [1, 1]), reward=7.0)
    two = episode_of(turns_with([4], [1]), reward=9.0)
    assert sample_returns([one, two], "per_phase", 0.5).tolist() == [1.5, 1, 4]
    assert sample_returns([one, two], "episode", 0.5).tolist() == [7, 9]
    assert sample_returns([one, two], "episode", 0.5).dtype == np.float32


def test_time_does_not_run_backwards():
    with pytest.raises(ValueError, match="elapsed_phases -1"):
        returns_to_go(turns_with([1], [-1]), 0.9)
