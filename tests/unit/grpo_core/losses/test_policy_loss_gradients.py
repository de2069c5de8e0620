"""The gradient of the whole loss on a tiny model in float64, beside central finite differences."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.settings import LearnerSettings
from tests.unit.grpo_core.forward.test_logprobs import dense
from tests.unit.grpo_core.losses.test_policy_loss import VARIANTS
from tests.unit.grpo_core.support.cases import VOCABULARY, ragged_turn

STEP = 1e-6


class Problem:
    """Four turns of two episodes under a model, with behaviour, proximal and reference policies a little off it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.turns = [ragged_turn(rng) for _ in range(4)]
        torch.manual_seed(1)
        # Unlike Llama's, its norms keep float64.
        config = GPT2Config(
            vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=1, n_head=2, initializer_range=0.5
        )
        self.model = GPT2LMHeadModel(config).eval().double()
        self.counts = [int(turn.trained_mask.sum()) for turn in self.turns]
        self.advantages = torch.tensor([1.3, -0.7, 0.4, -1.9], dtype=torch.float64)
        with torch.no_grad():
            logprobs, _ = self.policy()
        noise = torch.from_numpy(rng.normal(0, 0.2, (3, len(logprobs))))
        self.behaviour, self.proximal, self.reference = logprobs + noise

    def policy(self):
        rows = [dense(self.model, turn) for turn in self.turns]
        return torch.cat([chosen for chosen, _ in rows]), torch.cat([entropy for _, entropy in rows])

    def loss(self, settings, frozen_ratio=None):
        logprobs, entropy = self.policy()
        rows = torch.arange(4).repeat_interleave(torch.tensor(self.counts))
        tokens = LossTokens(
            logprobs,
            entropy,
            self.behaviour,
            self.advantages[rows],
            rows,
            4,
            self.proximal,
            self.reference,
        )
        losses = token_losses(tokens, settings)
        weights = turn_token_weights(
            settings.named_normalizer,
            self.counts,
            [0, 0, 1, 1],
            max_completion_length=settings.max_completion_length,
            batch_tokens_per_step=30.0,
        )
        each = losses.loss_N
        if frozen_ratio is not None:
            each = -frozen_ratio.clamp(max=settings.epsilon_high) * tokens.advantages_N * logprobs
        return (torch.from_numpy(weights)[rows] * each).sum(), losses.log_ratio_N.detach().exp()


@pytest.fixture(scope="module")
def problem():
    return Problem()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_gradient_equals_finite_differences(problem, name):
    settings = LearnerSettings(**VARIANTS[name])
    parameters = list(problem.model.parameters())
    loss, ratio = problem.loss(settings)
    gradients = torch.autograd.grad(loss, parameters)
    # CISPO's ratio is a constant by definition, so it stands still while the differences are taken.
    frozen = ratio if name == "cispo" else None
    rng = torch.Generator().manual_seed(0)
    direction = [torch.randn(value.shape, generator=rng, dtype=torch.float64) for value in parameters]
    expected = sum(float((gradient * along).sum()) for gradient, along in zip(gradients, direction, strict=True))
    ends = []
    with torch.no_grad():
        for sign in (1, -2, 1):  # forward, backward, home
            for value, along in zip(parameters, direction, strict=True):
                value.add_(along, alpha=sign * STEP)
            ends.append(float(problem.loss(settings, frozen)[0]))
    assert abs(expected) > 1e-3
    assert (ends[0] - ends[1]) / (2 * STEP) == pytest.approx(expected, rel=1e-5)
