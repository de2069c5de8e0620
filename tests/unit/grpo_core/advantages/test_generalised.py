"""Generalised advantages against the sum that defines them, and at both ends of the decay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.advantages.generalised import generalised_advantages
from grpo_core.advantages.returns import returns_to_go
from tests.unit.grpo_core.support.cases import ragged_turn

numbers = st.floats(-5, 5)


def turns_of(rewards, elapsed):
    draw = np.random.default_rng(0)
    turn = ragged_turn(draw)
    fields = {name: getattr(turn, name) for name in type(turn).__dataclass_fields__}
    return [type(turn)(**{**fields, "reward": reward, "elapsed_phases": phases})
            for reward, phases in zip(rewards, elapsed, strict=True)]  # fmt: skip


@given(
    st.lists(st.tuples(numbers, numbers, st.integers(0, 3)), min_size=1, max_size=8),
    numbers, st.floats(0.5, 1), st.floats(0, 1),
)  # fmt: skip
def test_it_is_the_sum_of_the_surprises_that_follow(steps, last, discount, decay):
    rewards, values, elapsed = (list(column) for column in zip(*steps, strict=True))
    found = generalised_advantages(turns_of(rewards, elapsed), np.array(values), last, discount, decay)
    after = [*values[1:], last]
    factors = [discount**phases for phases in elapsed]
    surprises = [r + g * v - now for r, g, v, now in zip(rewards, factors, after, values, strict=True)]
    for place in range(len(steps)):
        total, weight = 0.0, 1.0
        for later in range(place, len(steps)):
            total += weight * surprises[later]
            weight *= factors[later] * decay
        assert found[place] == pytest.approx(total, abs=1e-9)


def test_with_a_decay_of_one_it_is_the_return_less_the_value():
    turns, values = turns_of([1.0, -2.0, 3.0], [1, 2, 1]), np.array([0.5, 1.0, -1.0])
    found = generalised_advantages(turns, values, 0.0, 0.9, 1.0)
    np.testing.assert_allclose(found, returns_to_go(turns, 0.9) - values, rtol=1e-6)
