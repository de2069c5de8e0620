import itertools

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_core.errors import DivergenceError, ResourceError
from grpo_core.gradients.pcgrad_cagrad import (
    assign_gradient,
    cagrad_weights,
    check_gradient_memory,
    conflict_statistics,
    flat_gradient,
    gram_matrix,
)
from tests.unit.grpo_core.support.cases import cagrad, pcgrad

matrices = st.builds(
    lambda seed, groups, size: np.random.default_rng(seed).normal(size=(groups, size)),
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 8),
)
few = settings(max_examples=40, deadline=None)


def surgery(method, rows, *options):
    return method(torch.tensor(rows, dtype=torch.float64), *options).numpy()


def projected_one_by_one(rows, generator):
    """PCGrad on the vectors themselves."""
    out = []
    for index, row in enumerate(rows):
        vector = row.copy()
        for other in generator.permutation(len(rows)):
            along = vector @ rows[other]
            if other != index and along < 0:
                vector = vector - along / (rows[other] @ rows[other]) * rows[other]
        out.append(vector)
    return np.mean(out, axis=0)


def worst_improvement(rows, direction):
    return (np.asarray(rows) @ direction).min()


def best_direction(rows, c):
    """The largest worst-group improvement within the ball, by a general constrained optimiser from many starts."""
    mean = rows.mean(axis=0)
    radius = c * np.linalg.norm(mean)
    starts = [mean, *(mean + radius * row / np.linalg.norm(row) for row in rows)]
    best = None
    for start in starts:
        found = scipy.optimize.minimize(
            lambda x: -x[-1],
            np.append(start, worst_improvement(rows, start)),
            jac=lambda x: np.append(np.zeros(len(x) - 1), -1.0),
            constraints=[
                {"type": "ineq", "fun": lambda x: rows @ x[:-1] - x[-1]},
                {"type": "ineq", "fun": lambda x: radius**2 - (x[:-1] - mean) @ (x[:-1] - mean)},
            ],
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        ).x[:-1]
        offset = found - mean
        found = mean + offset * min(1.0, radius / max(np.linalg.norm(offset), 1e-300))
        if best is None or worst_improvement(rows, found) > worst_improvement(rows, best):
            best = found
    return best


def assert_optimal(rows, c):
    """Any simplex mixture bounds the worst group's improvement from above; the solution's own meets it."""
    mean = rows.mean(axis=0)
    radius = c * np.linalg.norm(mean)
    direction = surgery(cagrad, rows, c)
    assert np.linalg.norm(direction - mean) <= radius * (1 + 1e-6) + 1e-12
    mixture = cagrad_weights(rows @ rows.T, c) - 1 / len(rows)  # radius / |g_w| times the simplex weights
    assert (mixture >= -1e-9).all()
    mixture = mixture @ rows / mixture.sum()
    bound = mixture @ mean + radius * np.linalg.norm(mixture)
    longest = np.linalg.norm(rows, axis=1).max()
    assert worst_improvement(rows, direction) == pytest.approx(bound, abs=1e-5 * radius * longest)


class TestPCGrad:
    @few
    @given(matrices, st.integers(0, 100))
    def test_it_equals_projecting_the_vectors_one_by_one(self, rows, seed):
        ours = surgery(pcgrad, rows, np.random.default_rng(seed))
        assert ours == pytest.approx(projected_one_by_one(rows, np.random.default_rng(seed)), rel=1e-6, abs=1e-8)

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([[1.0, 0.0], [-1.0, 1.0]], [0.25, 0.75]),  # (0.5, 0.5) and (0, 1)
            ([[1.0, 0.0], [-2.0, 0.0]], [0.0, 0.0]),  # opposite: nothing is left of either
            ([[1.0, 0.0], [0.0, 3.0]], [0.5, 1.5]),  # orthogonal: no conflict
            ([[1.0, 0.0], [0.0, 0.0]], [0.5, 0.0]),  # a zero gradient conflicts with none
        ],
    )
    def test_it_projects_two_conflicting_vectors(self, rows, expected):
        assert surgery(pcgrad, rows, np.random.default_rng(0)) == pytest.approx(expected, abs=1e-12)

    @few
    @given(matrices)
    def test_it_is_the_mean_when_no_gradients_conflict(self, rows):
        assert surgery(pcgrad, abs(rows), np.random.default_rng(0)) == pytest.approx(abs(rows).mean(axis=0))

    @few
    @given(matrices, st.floats(1e-3, 1e3))
    def test_it_scales_with_the_gradients(self, rows, scale):
        plain = surgery(pcgrad, rows, np.random.default_rng(3))
        assert surgery(pcgrad, scale * rows, np.random.default_rng(3)) == pytest.approx(
            scale * plain, rel=1e-6, abs=1e-8 * scale
        )

    def test_two_groups_give_the_same_result_in_any_order_and_more_depend_on_the_seed(self):
        pair = np.array([[1.0, 2.0, 0.5], [-3.0, 1.0, 0.0]])
        assert surgery(pcgrad, pair, np.random.default_rng(0)) == pytest.approx(
            surgery(pcgrad, pair[::-1].copy(), np.random.default_rng(5))
        )
        rows = np.random.default_rng(1).normal(size=(6, 3))
        results = [surgery(pcgrad, rows, np.random.default_rng(seed)) for seed in (0, 0, 1)]
        assert np.array_equal(results[0], results[1])
        assert not np.allclose(results[0], results[2])


class TestCAGrad:
    @pytest.mark.parametrize("groups", [2, 3])
    @pytest.mark.parametrize("seed", range(8))
    def test_no_direction_in_the_ball_serves_the_worst_group_better(self, groups, seed):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(groups, 4)) * rng.uniform(0.2, 3, size=(groups, 1))
        c = float(rng.uniform(0.1, 0.95))
        ours, reference = surgery(cagrad, rows, c), best_direction(rows, c)
        mean = rows.mean(axis=0)
        assert np.linalg.norm(ours - mean) <= c * np.linalg.norm(mean) * (1 + 1e-9)
        assert worst_improvement(rows, ours) == pytest.approx(worst_improvement(rows, reference), rel=1e-5, abs=1e-6)
        assert ours == pytest.approx(reference, rel=1e-2, abs=1e-2)

    def test_it_equals_a_brute_force_search_over_the_circle_for_two_vectors(self):
        rows, c = np.array([[2.0, 0.0], [-1.0, 0.5]]), 0.6
        mean = rows.mean(axis=0)
        angles = np.linspace(0, 2 * np.pi, 200_001)
        circle = mean + c * np.linalg.norm(mean) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        best = circle[(circle @ rows.T).min(axis=1).argmax()]
        assert surgery(cagrad, rows, c) == pytest.approx(best, abs=1e-4)

    @few
    @given(matrices, st.floats(0.01, 0.99))
    def test_strong_duality_holds(self, rows, c):
        assert_optimal(rows, c)

    @pytest.mark.parametrize("seed", range(6))
    def test_strong_duality_holds_for_many_groups_of_unequal_lengths(self, seed):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(20, 12)) * 10 ** rng.uniform(-3, 2, size=(20, 1))
        rows[1], rows[3] = rows[0], -2 * rows[2]
        assert_optimal(rows, float(rng.uniform(0.05, 0.95)))

    def test_it_harms_neither_of_two_opposite_groups(self):
        rows = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0]])  # g_w = 0 is the dual's optimum here
        ours = surgery(cagrad, rows, 0.5)
        assert worst_improvement(rows, ours) == pytest.approx(0, abs=1e-4)
        assert ours == pytest.approx([0, 1], abs=1e-4)  # nearest to the mean (-1/3, 1) among those

    @few
    @given(matrices)
    def test_it_is_the_mean_at_c_zero(self, rows):
        assert surgery(cagrad, rows, 0.0) == pytest.approx(rows.mean(axis=0))

    @few
    @given(matrices, st.floats(0.05, 0.95), st.floats(1e-3, 1e3), st.randoms())
    def test_it_scales_with_the_gradients_and_ignores_their_order(self, rows, c, scale, random):
        plain = surgery(cagrad, rows, c)
        order = random.sample(range(len(rows)), len(rows))
        size = abs(rows).max()
        assert surgery(cagrad, scale * rows, c) == pytest.approx(scale * plain, abs=1e-5 * size * scale)
        assert surgery(cagrad, rows[order], c) == pytest.approx(plain, abs=1e-5 * size)

    @pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
    def test_a_mean_far_shorter_than_the_gradients_is_left_by_no_more_than_the_radius(self, order):
        rows = np.random.default_rng(308).normal(size=(4, 1))[list(order)]  # their mean is 9e-5
        assert surgery(cagrad, rows, 0.5) == pytest.approx(rows.mean(axis=0) / 2, rel=1e-6)  # the worst is negative

    @pytest.mark.parametrize("length", [1e-9, 1e-12])
    def test_a_mean_that_inner_products_cannot_tell_from_0_is_taken_as_it_is(self, length):
        for seed in range(20):
            rows = np.random.default_rng(seed).normal(size=(3, 2))
            rows += length * np.array([1.0, 0.0]) - rows.mean(axis=0)
            ours = surgery(cagrad, rows, 0.5)
            assert ours == pytest.approx(rows.mean(axis=0), abs=1e-14)

    def test_it_handles_equal_zero_and_opposite_gradients(self):
        row = np.array([3.0, 4.0])
        assert surgery(cagrad, np.stack([row] * 3), 0.5) == pytest.approx(1.5 * row)
        assert surgery(cagrad, np.zeros((3, 2)), 0.5) == pytest.approx(np.zeros(2))
        assert surgery(cagrad, np.stack([row, -row]), 0.5) == pytest.approx(np.zeros(2), abs=1e-9)


class TestStatistics:
    def test_statistics_equal_a_plain_loop(self):
        rows = np.random.default_rng(2).normal(size=(5, 3))
        rows[3] = 0
        seen = conflict_statistics(gram_matrix(torch.tensor(rows)))
        pairs = list(itertools.combinations(range(5), 2))
        cosines = {
            (i, j): rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j])
            for i, j in pairs
            if 3 not in (i, j)
        }
        assert seen.norm_G == pytest.approx(np.linalg.norm(rows, axis=1))
        assert seen.conflicting_fraction == pytest.approx(sum(value < 0 for value in cosines.values()) / len(pairs))
        assert 0 < seen.conflicting_fraction < 1
        assert seen.mean_cosine == pytest.approx(np.mean(list(cosines.values())))

    def test_one_group_has_no_conflict(self):
        seen = conflict_statistics(gram_matrix(torch.tensor([[3.0, 4.0]])))
        assert (seen.norm_G.tolist(), seen.conflicting_fraction, seen.mean_cosine) == ([5.0], 0.0, 0.0)

    def test_long_float32_gradients_are_summed_in_float64(self):
        rows = torch.randn(2, (1 << 20) + 7, generator=torch.Generator().manual_seed(0))
        assert gram_matrix(rows) == pytest.approx((rows.double() @ rows.double().T).numpy(), rel=1e-12)

    def test_non_finite_gradients_are_refused(self):
        with pytest.raises(DivergenceError, match="group 1"):
            pcgrad(torch.tensor([[1.0, 0.0], [float("nan"), 1.0]]), np.random.default_rng(0))


class TestFlatGradients:
    def test_flattening_and_assigning_keeps_every_gradient_in_its_place(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1, bias=False))
        named = dict(model.named_parameters())
        model(torch.randn(4, 3)).sum().backward()
        kept = {name: parameter.grad.clone() for name, parameter in named.items()}
        matrix = torch.full((2, 10), torch.nan)
        row = matrix[1]
        flat_gradient(named, row)
        assert torch.equal(row, torch.cat([gradient.flatten() for gradient in kept.values()]))
        assert matrix[0].isnan().all()
        assign_gradient(named, 2 * row)
        assert all(torch.equal(parameter.grad, 2 * kept[name]) for name, parameter in named.items())

    def test_a_missing_gradient_is_zero_and_types_are_the_parameters(self):
        named = {"a": torch.zeros(2, 2, dtype=torch.bfloat16, requires_grad=True), "b": torch.zeros(1)}
        flat = torch.empty(5)
        flat_gradient(named, flat)
        assert flat.tolist() == [0] * 5
        assign_gradient(named, torch.arange(5.0))
        assert named["a"].grad.dtype == torch.bfloat16
        assert named["a"].grad.tolist() == [[0, 1], [2, 3]]

    def test_mismatched_lengths_are_refused(self):
        named = {"a": torch.zeros(2)}
        with pytest.raises(RuntimeError, match="sum exactly"):
            assign_gradient(named, torch.zeros(3))
        with pytest.raises(RuntimeError, match="sum exactly"):
            flat_gradient(named, torch.zeros(1))

    def test_surgery_on_a_model_combines_its_groups_gradients(self):
        model = torch.nn.Linear(2, 1, bias=False)
        named = dict(model.named_parameters())
        inputs = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])
        matrix = torch.empty(2, 2)
        for group in range(2):
            model.zero_grad()
            model(inputs[group]).sum().backward()
            flat_gradient(named, matrix[group])
        assign_gradient(named, pcgrad(matrix, np.random.default_rng(0)))
        assert model.weight.grad.flatten().tolist() == pytest.approx([0.25, 0.75])


class TestMemory:
    def test_gradients_that_exactly_fit_are_accepted_and_one_byte_less_is_refused(self):
        check_gradient_memory(1000, 7, 28_000)
        with pytest.raises(ResourceError, match="7 groups x 1,000 parameters") as refusal:
            check_gradient_memory(1000, 7, 27_999)
        assert "\n" not in str(refusal.value)
