from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.ensembles.representations import (
    cosine_similarities,
    effective_rank,
    mean_pairwise_cosine,
    most_central,
)


def random_states(agents: int, size: int, seed: int) -> torch.Tensor:
    return torch.randn(agents, size, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 10**6))
def test_effective_rank_equals_numpys(agents: int, size: int, seed: int) -> None:
    states = random_states(agents, size, seed)
    values = np.linalg.svd(states.double().numpy(), compute_uv=False)
    shares = values / values.sum()
    expected = math.exp(-sum(share * math.log(share) for share in shares if share > 0))
    found = effective_rank(states)
    assert found == pytest.approx(expected, rel=1e-9)
    assert 1 - 1e-9 <= found <= min(agents, size) + 1e-9


def test_effective_rank_counts_directions() -> None:
    assert effective_rank(torch.eye(4)) == pytest.approx(4)
    assert effective_rank(torch.ones(4, 7)) == pytest.approx(1, abs=1e-6)
    assert effective_rank(torch.diag(torch.tensor([1.0, 1.0, 0.0]))) == pytest.approx(2)
    with pytest.raises(ValueError, match="zeros"):
        effective_rank(torch.zeros(2, 3))


@given(st.integers(2, 6), st.integers(1, 9), st.integers(0, 10**6))
def test_cosines_equal_a_loop(agents: int, size: int, seed: int) -> None:
    states = random_states(agents, size, seed).double().numpy()
    cosines = [
        float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
        for place, one in enumerate(states)
        for other in states[place + 1 :]
    ]
    assert mean_pairwise_cosine(torch.from_numpy(states)) == pytest.approx(np.mean(cosines), abs=1e-9)
    means = [
        np.mean([states[a] @ states[b] / np.linalg.norm(states[a]) / np.linalg.norm(states[b])
                 for b in range(agents) if b != a])
        for a in range(agents)
    ]  # fmt: skip
    assert means[most_central(torch.from_numpy(states))] == pytest.approx(max(means), abs=1e-9)


def test_the_most_central_agent_is_the_one_between_the_others() -> None:
    states = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert most_central(states) == 1
    assert most_central(100 * states * torch.tensor([[1.0], [0.01], [7.0]])) == 1, "lengths do not count"
    assert most_central(torch.ones(3, 5)) == 0, "the first of equals"
    assert most_central(torch.ones(1, 5)) == 0
    assert most_central(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])) == 1, "a state of zeros is like none"


def test_too_few_agents_are_refused() -> None:
    with pytest.raises(ValueError, match="no pair"):
        mean_pairwise_cosine(torch.ones(1, 3))
    with pytest.raises(ValueError, match="no agent"):
        most_central(torch.ones(0, 3))
    assert cosine_similarities(torch.ones(1, 3)).shape == (1, 1)
