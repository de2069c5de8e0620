import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.losses import DIAGNOSTICS, clipped_surrogate, token_diagnostics, turn_token_weights


def tokens(*rows: tuple[float, float, float]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Columns: ratio, behaviour log-probability, advantage."""
    ratio, behaviour, advantage = torch.tensor(rows, dtype=torch.float64).T
    return behaviour + ratio.log(), behaviour, advantage


def test_the_surrogate_clips_only_where_it_would_reward_going_further():
    columns = tokens((1.5, -1, 2), (0.5, -1, 2), (1.5, -2, -2), (0.5, -2, -2), (1.0, -3, 4))
    assert clipped_surrogate(*columns, 0.2, 0.28).tolist() == pytest.approx([-2.56, -1.0, 3.0, 1.6, -4.0])


def test_clipped_tokens_have_no_gradient():
    logprobs, behaviour, advantages = tokens((1.5, -1, 2), (1.1, -1, 2), (0.5, -1, -2))
    logprobs.requires_grad_()
    clipped_surrogate(logprobs, behaviour, advantages, 0.2, 0.28).sum().backward()
    assert logprobs.grad.tolist() == pytest.approx([0, -2.2, 0])  # d(-rho A)/d lp = -rho A


def test_diagnostics_equal_a_plain_loop():
    rows = [(1.5, -1.0, 2.0), (0.5, -1.0, -2.0), (0.5, -1.0, 1.0), (1.1, -2.0, -1.0)]
    entropies = torch.tensor([0.1, 0.2, 0.3, 0.4])
    sums = dict(zip(DIAGNOSTICS, token_diagnostics(*tokens(*rows), entropies, 0.2, 0.28).tolist(), strict=True))
    ratios = [row[0] for row in rows]
    assert sums == pytest.approx(
        {
            "tokens": 4,
            "ratio": sum(ratios),
            "ratio_max": 1.5,
            "clipped_low": 1,
            "clipped_high": 1,
            "kl": sum(ratio - 1 - math.log(ratio) for ratio in ratios),
            "entropy": 1.0,
            "gap_max": math.log(2),
        },
        rel=1e-6,
    )


turns = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), min_size=1, max_size=30)


@given(turns)
def test_weights_follow_the_named_normaliser(case):
    counts, owners = [count for count, _ in case], [owner for _, owner in case]
    trained = [index for index, count in enumerate(counts) if count]
    for normalizer in ("token", "turn", "episode"):
        weights = turn_token_weights(normalizer, counts, owners)
        share = weights * counts  # of the whole loss, turn by turn
        assert share.sum() == pytest.approx(1.0 if trained else 0.0)
        assert not share[[index for index, count in enumerate(counts) if not count]].any()
        if normalizer == "token":
            assert len(set(weights[trained])) <= 1
        elif normalizer == "turn":
            assert share[trained] == pytest.approx(np.full(len(trained), 1 / max(len(trained), 1)))
        else:
            present = {owners[index] for index in trained}
            for owner in present:
                own = [index for index in trained if owners[index] == owner]
                assert share[own].sum() == pytest.approx(1 / len(present))
                assert len(set(weights[own].tolist())) == 1


def test_long_episodes_weigh_more_only_where_the_name_says_so():
    counts, owners = [10, 10, 10, 2], [0, 0, 0, 1]
    shares = {
        name: (turn_token_weights(name, counts, owners) * counts)[:3].sum() for name in ("token", "turn", "episode")
    }
    assert shares == pytest.approx({"token": 30 / 32, "turn": 3 / 4, "episode": 1 / 2})
