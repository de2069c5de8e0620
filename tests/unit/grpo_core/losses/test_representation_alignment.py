import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from grpo_core.losses.representation_alignment import alignment_loss, masked_mean
from grpo_core.settings import AlignmentSettings

ROLES = ("ENGLAND", "TURKEY", "FRANCE")
ON = AlignmentSettings(weight=1.0)
PULL_ALONE = AlignmentSettings(weight=1.0, variance=0.0, covariance=0.0)


def case(seed, rows=9, length=5, size=4, pairs=ROLES):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, length, size, generator=generator)
    mask = torch.rand(rows, length, generator=generator) < 0.6
    return hidden, mask, [pairs[row % len(pairs)] for row in range(rows)]


def plain_loop(hidden, mask, roles, chosen):
    """The formula, number by number, in float64."""
    states = {}
    for row, role in enumerate(roles):
        kept = [hidden[row, at].double().numpy() for at in range(hidden.shape[1]) if mask[row, at]]
        if kept:
            states.setdefault(role, []).append(sum(kept) / len(kept))
    pairs = [(a, b) for a, b in chosen.pairs if min(len(states.get(a, [])), len(states.get(b, []))) >= 2]
    if not pairs:
        return 0.0
    size = hidden.shape[2]
    pull = np.mean([sum((np.mean(states[a], 0) - np.mean(states[b], 0)) ** 2) / size for a, b in pairs])
    variances, covariances = [], []
    for role in {role for pair in pairs for role in pair}:
        table = np.array(states[role])
        variances.append(np.mean([max(0, chosen.deviation - (c.var(ddof=1) + 1e-4) ** 0.5) for c in table.T]))
        matrix = np.atleast_2d(np.cov(table.T))
        covariances.append(sum(matrix[i, j] ** 2 for i, j in itertools.permutations(range(size), 2)) / size)
    guard = chosen.variance * np.mean(variances) + chosen.covariance * np.mean(covariances)
    return chosen.weight * (pull + guard)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 5), st.floats(0.1, 3))
def test_the_alignment_loss_equals_a_plain_loop(seed, rows, size, deviation):
    chosen = AlignmentSettings(
        weight=0.3, pairs=(("ENGLAND", "TURKEY"), ("FRANCE", "ENGLAND")), covariance=0.5, deviation=deviation
    )
    inputs = case(seed, rows=rows, size=size)
    assert alignment_loss(*inputs, chosen).item() == pytest.approx(plain_loop(*inputs, chosen), rel=1e-4, abs=1e-6)


def test_the_alignment_gradient_equals_finite_differences():
    hidden, mask, roles = case(2, rows=6, size=3)

    def pooled(values):
        return alignment_loss(values, mask, roles, ON)

    leaf = hidden.clone().requires_grad_()
    pooled(leaf).backward()
    direction = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(7))
    step = 1e-3
    with torch.no_grad():
        difference = (pooled(hidden + step * direction) - pooled(hidden - step * direction)) / (2 * step)
    assert (leaf.grad * direction).sum().item() == pytest.approx(difference.item(), rel=1e-2)


def test_masked_positions_have_no_influence_and_no_gradient():
    hidden, mask, roles = case(3)
    plain = alignment_loss(hidden, mask, roles, ON)
    for rubbish in (1e6, float("nan"), float("inf")):
        leaf = torch.where(mask[:, :, None], hidden, rubbish).requires_grad_()
        loss = alignment_loss(leaf, mask, roles, ON)
        loss.backward()
        assert torch.equal(loss, plain)
        assert not leaf.grad[~mask].any()
        paired = [row for row, role in enumerate(roles) if role != "FRANCE"]
        assert leaf.grad[paired][mask[paired]].abs().sum() > 0


def test_the_masked_mean_equals_the_mean_of_unmasked_positions():
    hidden, mask, _ = case(4)
    mask[0] = False
    means = masked_mean(hidden.to(torch.bfloat16), mask)
    assert means.dtype == torch.float32
    assert not means[0].any()
    for row in range(1, len(mask)):
        if mask[row].any():
            assert torch.allclose(means[row], hidden[row][mask[row]].to(torch.bfloat16).float().mean(0))


@pytest.mark.parametrize(
    "roles",
    [
        ["ENGLAND"] * 4,  # the other role is absent
        ["ENGLAND", "ENGLAND", "ENGLAND", "TURKEY"],  # one row has no variance to guard
        ["FRANCE", "ITALY", "FRANCE", "ITALY"],  # both are
    ],
)
def test_a_pair_that_cannot_be_compared_gives_exactly_zero(roles):
    hidden, mask, _ = case(5, rows=4)
    seen = alignment_loss(hidden.requires_grad_(), mask | True, roles, ON)
    assert (seen.item(), seen.requires_grad) == (0.0, False)


def test_rows_without_a_position_are_ignored():
    hidden, mask, roles = case(6, rows=6, pairs=("ENGLAND", "TURKEY"))
    mask = mask | True
    mask[4:] = False
    short = alignment_loss(hidden[:4], mask[:4], roles[:4], ON)
    assert torch.equal(alignment_loss(hidden, mask, roles, ON), short)
    mask[2] = False  # one row of England is left
    assert alignment_loss(hidden, mask, roles, ON).item() == 0


def test_roles_outside_the_pairs_have_no_influence():
    hidden, mask, roles = case(7)
    changed = hidden.clone()
    changed[[role == "FRANCE" for role in roles]] += 100
    leaf = changed.requires_grad_()
    loss = alignment_loss(leaf, mask, roles, ON)
    loss.backward()
    assert torch.equal(loss, alignment_loss(hidden, mask, roles, ON))
    assert not leaf.grad[[role == "FRANCE" for role in roles]].any()


def test_alignment_is_off_by_default():
    assert AlignmentSettings().weight == 0
    leaf = case(8)[0].requires_grad_()
    seen = alignment_loss(leaf, *case(8)[1:], AlignmentSettings())
    assert (seen.item(), seen.requires_grad) == (0.0, False)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(9)), st.permutations(range(5)))
def test_the_loss_does_not_depend_on_the_order_of_rows_positions_and_pairs(seed, rows, positions):
    hidden, mask, roles = case(seed)
    pairs = (("ENGLAND", "TURKEY"), ("FRANCE", "ENGLAND"))
    turned = tuple((b, a) for a, b in reversed(pairs))
    plain = alignment_loss(hidden, mask, roles, AlignmentSettings(weight=1.0, pairs=pairs))
    moved = alignment_loss(
        hidden[rows][:, positions],
        mask[rows][:, positions],
        [roles[row] for row in rows],
        AlignmentSettings(weight=1.0, pairs=turned),
    )
    assert moved.item() == pytest.approx(plain.item(), rel=1e-4, abs=1e-6)


def trained_deviation(chosen):
    """Deviation of fresh states after a linear layer was trained on the alignment loss alone."""
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(6, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4, 6))
    mask = torch.ones(12, 2, dtype=torch.bool)
    roles = ["ENGLAND", "TURKEY"] * 6
    shift = torch.tensor([1.0, -1.0]).repeat(6)[:, None, None]

    def states(rows):
        return torch.randn(rows, 1, 6, generator=generator).expand(-1, 2, -1)

    for _ in range(250):
        loss = alignment_loss(layer(states(12) + shift), mask, roles, chosen)
        (gradient,) = torch.autograd.grad(loss, [layer.weight])
        with torch.no_grad():
            layer.weight -= 0.1 * gradient
    with torch.no_grad():
        apart = layer(torch.full((6,), 2.0)).norm().item()
        return layer(states(500)[:, 0]).std(0), apart


def test_attraction_alone_collapses_representations_and_the_variance_term_prevents_it():
    collapsed, apart = trained_deviation(PULL_ALONE)
    assert collapsed.max() < 0.05
    guarded, guarded_apart = trained_deviation(ON)
    assert guarded.min() > 0.7
    assert max(apart, guarded_apart) < 1.0  # both drew the roles together, from 4.0


def test_settings_refuse_a_role_paired_with_itself_and_a_pair_twice():
    for pairs in ((("ENGLAND", "ENGLAND"),), (("ENGLAND", "TURKEY"), ("TURKEY", "ENGLAND"))):
        with pytest.raises(ValidationError, match="two different roles"):
            AlignmentSettings(pairs=pairs)
    assert AlignmentSettings().pairs == (("ENGLAND", "TURKEY"),)
