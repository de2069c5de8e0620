"""A smooth surface through noisy trials, how much each setting matters, and where a broad plateau lies.

Axes: N trials, P settings (places in the unit cube), G places of a grid. All functions are pure.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cluster.comparison.sensitivity.ranges import Float64Array

NEIGHBOURHOOD = 0.1  # of each range, to either side
_NEIGHBOURS = 128
_CANDIDATES = 512
_WORST = 0.2  # the share of a neighbourhood whose best is what a place counts as
RESAMPLES = 40
_TREES = 16
_MOST_TRIALS = 400  # for a Gaussian process, whose time grows with their cube


@dataclass(frozen=True, slots=True)
class Importance:
    """The share of the variance over all settings that one of them explains by itself, with its 95 % interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Plateau:
    """A place with what the surface says of it, and the best single trial beside it."""

    place: tuple[float, ...]
    expected: float  # there
    around: float  # what four fifths of its neighbourhood reach
    best_trial: int
    best_return: float  # as it was measured
    best_expected: float  # what the surface says of that trial's place
    best_around: float


class Surface:
    """A Gaussian process through the returns of trials, with noise."""

    def __init__(self, places_NP: Float64Array, returns_N: Float64Array, seed: int) -> None:
        """Takes ten trials or more; raises ValueError for fewer."""
        from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
        from sklearn.gaussian_process import GaussianProcessRegressor  # type: ignore[import-untyped]
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # type: ignore[import-untyped]

        if len(places_NP) < 10:
            raise ValueError(f"a surface needs 10 trials, not {len(places_NP)}")
        count = places_NP.shape[1]
        kernel = ConstantKernel(1.0) * Matern(np.full(count, 0.5), (0.05, 20.0), nu=2.5) + WhiteKernel(0.1, (1e-4, 10))
        self._centre, self._scale = float(returns_N.mean()), float(returns_N.std()) or 1.0
        self._process = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a setting without effect has no length
            self._process.fit(places_NP[-_MOST_TRIALS:], ((returns_N - self._centre) / self._scale)[-_MOST_TRIALS:])

    def expected(self, places: Float64Array) -> Float64Array:
        """The expected return at places, shape (N, P) -> (N,)."""
        found: Float64Array = self._process.predict(places) * self._scale + self._centre
        return found

    def over_two(self, first: int, second: int, others_NP: Float64Array, steps: int) -> Float64Array:
        """The expected return over two settings, mean over ``others_NP`` of the rest; shape (steps, steps)."""
        line = np.linspace(0.0, 1.0, steps)
        grid = np.empty((steps, steps))
        for row, one in enumerate(line):
            for column, other in enumerate(line):
                moved = others_NP.copy()
                moved[:, first], moved[:, second] = one, other
                grid[row, column] = float(self.expected(moved).mean())
        return grid


def importances(
    places_NP: Float64Array, returns_N: Float64Array, names: Sequence[str], seed: int, resamples: int = RESAMPLES
) -> list[Importance]:
    """How much of the variance each setting explains alone, in the sequence of ``names``.

    This is fANOVA (Hutter, Hoos and Leyton-Brown, ICML 2014) as Optuna computes it from random forests. Its intervals
    are percentiles over trials drawn with replacement.
    """
    if len(set(returns_N.tolist())) == 1:
        return [Importance(0.0, 0.0, 0.0) for _ in names]  # there is nothing to explain
    draw = np.random.default_rng(seed)
    found = [_shares(places_NP, returns_N, names, seed)]
    for number in range(resamples):
        drawn = draw.integers(len(returns_N), size=len(returns_N))
        if len(set(returns_N[drawn].tolist())) > 1:
            found.append(_shares(places_NP[drawn], returns_N[drawn], names, seed + number + 1))
    shares = np.array(found)
    low, high = np.percentile(shares[1:], [2.5, 97.5], axis=0) if len(shares) > 1 else (shares[0], shares[0])
    # The whole sample may lie outside the percentiles of its resamples, in which the same trial occurs twice.
    return [
        Importance(float(share), float(min(share, one)), float(max(share, other)))
        for share, one, other in zip(shares[0], low, high, strict=True)
    ]


def _shares(places_NP: Float64Array, returns_N: Float64Array, names: Sequence[str], seed: int) -> list[float]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study: Any = optuna.create_study(direction="maximize")
    distributions: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}
    for place, value in zip(places_NP, returns_N, strict=True):
        params = {name: float(min(max(at, 0.0), 1.0)) for name, at in zip(names, place, strict=True)}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=float(value)))
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=_TREES, max_depth=16, seed=seed % 2**31)
    shares = evaluator.evaluate(study, params=list(names))
    return [float(shares[name]) for name in names]


def plateau(surface: Surface, places_NP: Float64Array, returns_N: Float64Array, seed: int) -> Plateau:
    """The place around which the surface is highest: at which most neighbours are good, not the place alone.

    Settings are rarely carried over exactly, so a place counts as what four fifths of its neighbourhood reach, which
    is ``NEIGHBOURHOOD`` of each range to either side. Candidates are the trials and places evenly spread.
    """
    from scipy.stats import qmc  # type: ignore[import-untyped]

    count = places_NP.shape[1]
    spread = qmc.Sobol(count, seed=seed).random(_CANDIDATES)
    shifts = (qmc.Sobol(count, seed=seed + 1).random(_NEIGHBOURS) * 2 - 1) * NEIGHBOURHOOD
    candidates = np.concatenate([places_NP, spread])
    around = np.array([around_place(surface, place, shifts) for place in candidates])
    at = int(around.argmax())
    best = int(returns_N.argmax())
    expected = surface.expected(np.stack([candidates[at], places_NP[best]]))
    return Plateau(
        tuple(map(float, candidates[at])), float(expected[0]), float(around[at]), best, float(returns_N[best]),
        float(expected[1]), float(around[best]),
    )  # fmt: skip


def around_place(surface: Surface, place: Float64Array, shifts: Float64Array) -> float:
    """What four fifths of a place's neighbours reach at least; those beyond a range stand at its end."""
    return float(np.quantile(surface.expected(np.clip(place + shifts, 0.0, 1.0)), _WORST))
