import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from grpo_core.losses.diagnostics import DIAGNOSTICS, token_diagnostics
from grpo_core.losses.kl import kl_estimates
from grpo_core.losses.off_policy import importance_weights, off_policy_mask
from grpo_core.losses.policy_loss import LossTokens, cispo, clipped_surrogate, token_losses
from grpo_core.losses.ratios import log_ratios
from grpo_core.settings import LearnerSettings

#: Each kind of loss, and each option that can be combined with it.
VARIANTS = {
    "grpo": {},
    "bnpo": {"loss_type": "bnpo", "delta": 1.5},
    "dr_grpo": {"loss_type": "dr_grpo", "max_completion_length": 16},
    "dapo": {"loss_type": "dapo", "epsilon": 0.1},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.2},
    "rloo": {"loss_type": "rloo"},
    "gspo": {"importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.06},
    "k1": {"beta": 0.1, "kl_estimator": "k1"},
    "k2": {"beta": 0.1, "kl_estimator": "k2", "use_bias_correction_kl": False},
    "k3": {"beta": 0.1, "entropy_coef": 0.02},
    "decoupled": {"decoupled": True},
    "truncated": {"decoupled": True, "importance_sampling_mode": "token_truncate", "importance_sampling_clip_max": 1.1},
    "masked": {"decoupled": True, "importance_sampling_mode": "sequence_mask", "importance_sampling_clip_max": 1.2},
    "dropped": {"off_policy_mask_threshold": 0.02},
}


def columns(*rows: tuple[float, float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Columns: logarithm of the given ratios, advantages."""
    ratio, advantage = torch.tensor(rows, dtype=torch.float64).T
    return ratio.log(), advantage


def loss_tokens(seed: int, sizes=(3, 1, 5, 2), spread: float = 0.3) -> LossTokens:
    """Random tokens in float64: turns of these sizes with one advantage each."""
    rng = torch.Generator().manual_seed(seed)
    rows = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    behaviour = -2 * torch.rand(len(rows), generator=rng, dtype=torch.float64)
    lps, proximal, reference, entropy = (
        behaviour + spread * torch.randn(len(rows), generator=rng, dtype=torch.float64) for _ in range(4)
    )
    advantages = torch.randn(len(sizes), generator=rng, dtype=torch.float64)
    return LossTokens(lps, entropy.abs(), behaviour, advantages[rows], rows, len(sizes), proximal, reference)


def permuted(tokens: LossTokens, order: torch.Tensor) -> LossTokens:
    return LossTokens(
        **{
            name: getattr(tokens, name)[order] if name.endswith("_N") else tokens.rows
            for name in LossTokens.__dataclass_fields__
        }
    )


def test_the_surrogate_clips_only_changes_that_the_advantage_favours():
    tokens = columns((1.5, 2), (0.5, 2), (1.5, -2), (0.5, -2), (1.0, 4))
    assert clipped_surrogate(*tokens, 0.2, 0.28).tolist() == pytest.approx([-2.56, -1.0, 3.0, 1.6, -4.0])


def test_a_dual_clip_bounds_only_the_loss_of_negative_advantages():
    tokens = columns((9, 2), (9, -2), (1.4, -2), (0.5, -2))
    assert clipped_surrogate(*tokens, 0.2, 0.28, delta=3.0).tolist() == pytest.approx([-2.56, 6.0, 2.8, 1.6])


def test_clipped_tokens_have_a_gradient_only_under_cispo():
    log_ratio, advantages = columns((1.5, 2), (1.1, 2), (0.5, -2), (9, -2))
    log_ratio.requires_grad_()
    clipped_surrogate(log_ratio, advantages, 0.2, 0.28, 3.0).sum().backward()
    assert log_ratio.grad.tolist() == pytest.approx([0, -2.2, 0, 0])  # d(-rho A)/d lp = -rho A
    logprobs = torch.full((4,), -1.0, dtype=torch.float64, requires_grad=True)
    cispo(log_ratio, logprobs, advantages, 1.2).sum().backward()
    assert logprobs.grad.tolist() == pytest.approx([-2.4, -2.2, 1.0, 2.4])


def test_log_ratios_are_computed_per_token_or_per_turn():
    new, old, rows = torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.5, -1.0, -3.5]), torch.tensor([0, 0, 1])
    expected = {"token": [0.5, -1.0, 0.5], "turn_mean": [-0.25, -0.25, 0.5], "turn_sum": [-0.5, -0.5, 0.5]}
    for level, values in expected.items():
        assert log_ratios(new, old, rows, 2, level).tolist() == pytest.approx(values)


def test_kl_estimators_agree_with_the_divergence_they_estimate():
    """Exactly, over all ids of a small vocabulary: k1 and k3 are unbiased, k2 is second-order close."""
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=rng, dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(logits.detach() + 0.1 * torch.randn(6, generator=rng, dtype=torch.float64), -1)
    policy = torch.log_softmax(logits, -1)
    divergence = (policy.exp() * (policy - reference)).sum()
    (expected,) = torch.autograd.grad(divergence, logits, retain_graph=True)
    estimates = {name: kl_estimates(policy, reference, name) for name in ("k1", "k2", "k3")}
    means = {name: float((policy.exp() * values).sum().detach()) for name, values in estimates.items()}
    assert means["k1"] == pytest.approx(float(divergence.detach()), rel=1e-9)
    assert means["k3"] == pytest.approx(float(divergence.detach()), rel=1e-9)
    assert means["k2"] == pytest.approx(float(divergence.detach()), rel=0.1)
    assert all((estimates[name] >= 0).all() for name in ("k2", "k3"))
    # What a sampled token's loss gives on average: its probability is a constant of the sampler.
    sampler = policy.detach().exp()
    ratio = (policy - policy.detach()).exp()
    for name, loss in (("k1", estimates["k1"] * ratio), ("k3", estimates["k3"] * ratio), ("k2", estimates["k2"])):
        (gradient,) = torch.autograd.grad((sampler * loss).sum(), logits, retain_graph=True)
        torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=1e-9, msg=name)
    (nothing,) = torch.autograd.grad((sampler * estimates["k1"]).sum(), logits)
    assert nothing.abs().max() < 1e-12


def test_off_policy_weights_are_computed_per_token_or_per_turn():
    proximal, rows = torch.tensor([2.0, 0.5, 4.0, 0.25]).log(), torch.tensor([0, 0, 1, 1])
    cases = {
        None: [2.0, 0.5, 4.0, 0.25],
        "token_truncate": [2.0, 0.5, 3.0, 0.4],
        "token_mask": [2.0, 0.5, 0.0, 0.0],
        "sequence_truncate": [1.0] * 4,
        "sequence_mask": [1.0] * 4,
    }
    for mode, expected in cases.items():
        assert importance_weights(proximal, torch.zeros(4), rows, 2, mode, 0.4, 3.0).tolist() == pytest.approx(expected)
    shifted = importance_weights(proximal + math.log(2), torch.zeros(4), rows, 2, "sequence_mask", None, 3.0)
    assert shifted.tolist() == [0.0] * 4


def test_only_off_policy_turns_with_negative_advantage_are_masked():
    behaviour, rows = torch.tensor([-1.0, -1.0, -1.0, -1.0, -1.0]), torch.tensor([0, 0, 1, 2, 3])
    new = torch.tensor([-3.0, -1.0, -3.0, -1.2, 0.0])  # means 1, 2, 0.2 and -1
    advantages = torch.tensor([-1.0, -1.0, 1.0, -1.0, -1.0])
    assert off_policy_mask(new, behaviour, advantages, rows, 4, 0.5).tolist() == [0, 0, 1, 1, 1]


def test_token_diagnostics_equal_a_plain_loop():
    ratios, advantages = [1.5, 0.5, 0.5, 1.1, 1.9], [2.0, -2.0, 1.0, -1.0, -1.0]
    behaviour = torch.tensor([-1.0, -1.0, -1.0, -2.0, -3.0], dtype=torch.float64)
    tokens = LossTokens(
        behaviour + torch.tensor(ratios).double().log(),
        torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0]),
        behaviour,
        torch.tensor(advantages, dtype=torch.float64),
        torch.arange(5),
        5,
        reference_N=behaviour,
    )
    options = LearnerSettings(delta=1.8, beta=1.0, use_bias_correction_kl=False, off_policy_mask_threshold=0.5)
    sums = token_diagnostics(tokens, token_losses(tokens, options), options).tolist()
    assert dict(zip(DIAGNOSTICS, sums, strict=True)) == pytest.approx(
        {
            "tokens": 5,
            "ratio": sum(ratios),
            "ratio_max": 1.9,
            "clipped_low": 1,
            "clipped_high": 1,
            "clipped_dual": 1,
            "kl": sum(ratio - 1 - math.log(ratio) for ratio in ratios),
            "reference_kl": sum(1 / ratio - 1 + math.log(ratio) for ratio in ratios),
            "entropy": 1.0,
            "gap_max": math.log(2),
            "importance": 4,
            "importance_square": 4,
            "importance_max": 1,
            "masked": 1,  # the second: halved since, and rightly so
        },
        rel=1e-6,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_token_losses_do_not_depend_on_the_order_of_tokens(name):
    options, tokens = LearnerSettings(**VARIANTS[name]), loss_tokens(3)
    order = torch.randperm(len(tokens.row_N), generator=torch.Generator().manual_seed(1))
    one, other = token_losses(tokens, options), token_losses(permuted(tokens, order), options)
    torch.testing.assert_close(one.loss_N[order], other.loss_N, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(
        token_diagnostics(tokens, one, options),
        token_diagnostics(permuted(tokens, order), other, options),
        atol=1e-12,
        rtol=1e-12,
    )


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "k3"])
def test_equal_policies_have_ratio_one_and_the_plain_policy_gradient(name):
    options, tokens = LearnerSettings(**VARIANTS[name]), loss_tokens(4)
    same = tokens.behaviour_N
    logprobs = same.clone().requires_grad_()
    tokens = LossTokens(logprobs, tokens.entropy_N, same, tokens.advantages_N, tokens.row_N, tokens.rows, same, same)
    losses = token_losses(tokens, options)
    assert not losses.log_ratio_N.any()
    assert losses.importance_N is None or (losses.importance_N == 1).all()
    counts = torch.bincount(tokens.row_N).double()[tokens.row_N]
    (gradient,) = torch.autograd.grad((losses.loss_N / counts).sum(), logprobs)
    # Under rloo each token moves its whole turn's ratio, so the mean over the turn's tokens has no length in it.
    expected = -tokens.advantages_N / (1 if name == "rloo" else counts)
    if name == "k1":
        expected = expected + options.beta / counts  # d(log ratio x ratio) = 1
    torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=1e-12)
    sums = dict(zip(DIAGNOSTICS, token_diagnostics(tokens, losses, options).tolist(), strict=True))
    assert [sums[key] for key in ("clipped_low", "clipped_high", "kl", "gap_max", "reference_kl", "masked")] == [0] * 6


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from(sorted(VARIANTS)))
def test_a_tokens_loss_depends_on_its_own_turn_alone(seed, name):
    """A turn's losses are the same in any company, so micro-batches of whole turns may be cut anywhere."""
    options, tokens = LearnerSettings(**VARIANTS[name]), loss_tokens(seed)
    together = token_losses(tokens, options).loss_N
    own = (tokens.row_N == 2).nonzero().squeeze(1)
    alone = permuted(tokens, own)
    alone = LossTokens(
        **{field: getattr(alone, field) for field in LossTokens.__dataclass_fields__ if field not in ("row_N", "rows")},
        row_N=torch.zeros(len(own), dtype=torch.int64),
        rows=1,
    )
    torch.testing.assert_close(token_losses(alone, options).loss_N, together[own], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_type": "cispo"}, "bounds the ratio itself"),
        ({"loss_type": "rloo", "delta": 3.0}, "delta has no place in loss_type rloo"),
        ({"loss_type": "cispo", "epsilon_high": 2.0, "delta": 4.0}, "delta has no place in loss_type cispo"),
        ({"delta": 1.28}, "above 1 \\+ epsilon_high"),
        ({"loss_type": "dr_grpo"}, "needs max_completion_length"),
        ({"normalizer": "max_completion_length"}, "needs max_completion_length"),
        ({"loss_type": "rloo", "importance_sampling_level": "sequence"}, "the whole turn already"),
        ({"loss_type": "rloo", "decoupled": True}, "sequence_truncate or sequence_mask"),
        ({"importance_sampling_mode": "token_mask"}, "needs decoupled"),
        (
            {"decoupled": True, "importance_sampling_mode": "token_mask", "importance_sampling_clip_max": None},
            "needs importance_sampling_clip_max or",
        ),
        (
            {"decoupled": True, "importance_sampling_mode": "token_mask", "importance_sampling_clip_min": 3.0},
            "must be below",
        ),
        ({"decoupled": True, "importance_sampling_clip_min": 0.5}, "clip_min needs importance_sampling_mode"),
        ({"beta": 0.1, "kl_estimator": "k1", "use_bias_correction_kl": False}, "no gradient in expectation"),
    ],
)
def test_contradictory_settings_are_refused_in_one_line(options, message):
    with pytest.raises(ValidationError, match=message) as raised:
        LearnerSettings(**options)
    (error,) = raised.value.errors()
    assert "\n" not in error["msg"]


@pytest.mark.parametrize("advantage", [1.0, 0.0, -1.0])
def test_an_overflowing_ratio_has_the_gradient_of_its_clip(advantage):
    log_ratio = torch.tensor([120.0, -500.0], requires_grad=True)
    loss = clipped_surrogate(log_ratio, torch.full((2,), advantage), 0.2, 0.28, delta=4.0)
    loss.sum().backward()
    high, low = {1.0: (-1.28, 0.0), 0.0: (0.0, 0.0), -1.0: (4.0, 0.8)}[advantage]
    assert loss.tolist() == pytest.approx([high, low], abs=1e-6)
    assert log_ratio.grad.tolist() == [0.0, 0.0]
