"""Losses and advantages compared with TRL's own code on random inputs, in float64."""

import itertools

import numpy as np
import pytest
import torch

from grpo_core.advantages.group_baseline import SCALE_EPS, group_advantages
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.losses.diagnostics import DIAGNOSTICS, token_diagnostics
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.settings import LearnerSettings
from grpo_core.types import Group
from tests.unit.grpo_core.support.trl_source import trl_advantages, trl_importance_ratio, trl_loss

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo")
ROWS, LENGTH, EXACT = 7, 9, {"atol": 1e-9, "rtol": 1e-9}


class Case:
    """Random log-probabilities (B, T) of four policies, a ragged mask with holes, and an advantage a row."""

    def __init__(self, seed: int, spread: float = 0.4) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.logps = (-2 * torch.rand(ROWS, LENGTH, generator=rng, dtype=torch.float64)).requires_grad_()
        self.old, self.sampling, self.reference = (
            self.logps.detach() + spread * torch.randn(ROWS, LENGTH, generator=rng, dtype=torch.float64)
            for _ in range(3)
        )
        self.mask = (torch.rand(ROWS, LENGTH, generator=rng) < 0.6).long()
        self.mask[:, int(torch.randint(LENGTH, (), generator=rng))] = 1
        self.advantages = torch.randn(ROWS, generator=rng, dtype=torch.float64)

    def flat(self, values):
        return values[self.mask.bool()]

    def ours(self, settings):
        """Loss over all rows by our functions, its gradient (B, T), and the diagnostics' means."""
        counts = self.mask.sum(1)
        tokens = LossTokens(
            logprobs_N=self.flat(self.logps),
            entropy_N=torch.zeros(int(counts.sum()), dtype=torch.float64),
            behaviour_N=self.flat(self.sampling if settings.decoupled else self.old),
            advantages_N=self.advantages.repeat_interleave(counts),
            row_N=torch.arange(ROWS).repeat_interleave(counts),
            rows=ROWS,
            proximal_N=self.flat(self.old) if settings.decoupled else None,
            reference_N=self.flat(self.reference) if settings.beta else None,
        )
        losses = token_losses(tokens, settings)
        weights = turn_token_weights(
            settings.named_normalizer,
            counts.tolist(),
            range(ROWS),
            max_completion_length=settings.max_completion_length,
            batch_tokens_per_step=float(counts.sum()),
        )
        loss = (torch.from_numpy(weights).repeat_interleave(counts) * losses.loss_N).sum()
        sums = token_diagnostics(tokens, losses, settings) / counts.sum()
        return loss, self.gradient(loss), dict(zip(DIAGNOSTICS, sums.tolist(), strict=True))

    def theirs(self, **options):
        inputs = {
            "advantages": self.advantages,
            "old_per_token_logps": self.old,
            "ref_per_token_logps": self.reference,
            **options.pop("inputs", {}),
        }
        loss, metrics = trl_loss(self.logps, torch.zeros_like(self.logps), self.mask, inputs, **options)
        return loss, self.gradient(loss), metrics

    def gradient(self, loss):
        return torch.autograd.grad(loss, self.logps, retain_graph=True)[0]


def assert_same(ours, theirs):
    assert ours[1].abs().max() > 1e-3
    torch.testing.assert_close(ours[0], theirs[0], **EXACT)
    torch.testing.assert_close(ours[1], theirs[1], **EXACT)


def settings_for(loss_type, **options):
    epsilon_high = 1.5 if loss_type == "cispo" else 0.28
    length = LENGTH if loss_type == "dr_grpo" else None
    return LearnerSettings(loss_type=loss_type, epsilon_high=epsilon_high, max_completion_length=length, **options)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("beta", "corrected"), [(0.0, True), (0.07, True), (0.07, False)])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("loss_type", "delta"), [*itertools.product(CLIPPED, (None, 1.4)), ("cispo", None)])
def test_every_shared_loss_and_its_gradient_equal_trls(loss_type, delta, level, beta, corrected, seed):
    settings = settings_for(
        loss_type, delta=delta, importance_sampling_level=level, beta=beta, use_bias_correction_kl=corrected
    )
    case = Case(seed)
    ours = case.ours(settings)
    theirs = case.theirs(
        loss_type=loss_type,
        delta=delta,
        importance_sampling_level=level,
        beta=beta,
        epsilon_high=settings.epsilon_high,
        use_bias_correction_kl=corrected,
    )
    assert_same(ours, theirs)
    if beta:
        assert ours[2]["reference_kl"] == pytest.approx(theirs[2]["kl"])
    if level == "token" and delta is None:
        name = "cispo_clip_ratio" if loss_type == "cispo" else "clip_ratio/high_mean"
        assert ours[2]["clipped_high"] == pytest.approx(theirs[2][name], abs=1e-6)
        assert loss_type == "cispo" or ours[2]["clipped_low"] == pytest.approx(
            theirs[2]["clip_ratio/low_mean"], abs=1e-6
        )


@pytest.mark.parametrize("bounds", [(None, 1.3), (0.8, 1.3), (0.8, None)])
@pytest.mark.parametrize("mode", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"])
@pytest.mark.parametrize(("loss_type", "level"), [("grpo", "token"), ("dapo", "sequence"), ("cispo", "token")])
def test_decoupled_importance_weights_equal_trls(loss_type, level, mode, bounds):
    low, high = bounds
    settings = settings_for(
        loss_type,
        importance_sampling_level=level,
        beta=0.05,
        decoupled=True,
        importance_sampling_mode=mode,
        importance_sampling_clip_min=low,
        importance_sampling_clip_max=high,
    )
    case = Case(len(mode), spread=0.2)
    ratio = trl_importance_ratio(case.old, case.sampling, case.mask, mode, low, high)
    theirs = case.theirs(
        loss_type=loss_type,
        importance_sampling_level=level,
        beta=0.05,
        epsilon_high=settings.epsilon_high,
        inputs={"importance_sampling_ratio": ratio},
    )
    assert_same(case.ours(settings), theirs)


@pytest.mark.parametrize("seed", range(4))
def test_off_policy_masking_equals_trls(seed):
    case = Case(seed, spread=1.0)
    case.advantages[::2] = -1.0
    settings = settings_for("dapo", off_policy_mask_threshold=0.02)
    ours = case.ours(settings)
    assert 0 < ours[2]["masked"] < 1
    assert_same(ours, case.theirs(loss_type="dapo", off_policy_mask_threshold=0.02))


@pytest.mark.parametrize("seed", range(4))
def test_rloo_equals_the_loss_of_trls_rloo_trainer(seed):
    case = Case(seed, spread=0.15)
    inputs = {"advantages": case.advantages, "old_logps": (case.old * case.mask).sum(1)}
    theirs, _ = trl_loss(case.logps, torch.zeros_like(case.logps), case.mask, inputs, trainer="rloo_trainer.py")
    assert_same(case.ours(settings_for("rloo")), (theirs, case.gradient(theirs)))


def grouped(seed, size=5, groups=6):
    rng = np.random.default_rng(seed)
    returns = (
        rng.normal(size=(groups, size)) * rng.uniform(0.1, 3, (groups, 1)) + rng.normal(size=(groups, 1))
    ).ravel()
    returns[:size] = 0.3  # one group without signal
    members = [tuple(range(first, first + size)) for first in range(0, len(returns), size)]
    return returns.astype(np.float32), [Group((index,), "country", row, row) for index, row in enumerate(members)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", ["group", "none"])
def test_group_advantages_equal_trls(scale, seed):
    returns, groups = grouped(seed)
    ours, _ = group_advantages(returns, groups, {}, scale=scale)
    theirs = trl_advantages(torch.from_numpy(returns).double(), 5, scale)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_batch_scaled_advantages_differ_from_trls_by_the_divisor_alone(seed):
    """Ours is the deviation of the centred returns, TRL's that of the raw ones, which holds the groups' means too."""
    returns, groups = grouped(seed)
    ours, _ = group_advantages(returns, groups, {}, scale="batch")
    centred, _ = group_advantages(returns, groups, {}, scale="none")
    theirs = trl_advantages(torch.from_numpy(returns).double(), 5, "batch").numpy()
    spread = np.sqrt(np.mean(centred.astype(np.float64) ** 2)) + SCALE_EPS
    np.testing.assert_allclose(ours * spread, theirs * (returns.std(ddof=1, dtype=np.float64) + 1e-4), atol=1e-6)
    assert spread < returns.std(ddof=1)
