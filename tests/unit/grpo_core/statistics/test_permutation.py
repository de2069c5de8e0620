from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from grpo_core.statistics.permutation import permutation_p_value


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(0))


def test_one_stratum_is_the_exact_test_of_mann_and_whitney() -> None:
    draw = np.random.default_rng(1)
    for shift in (0.0, 0.7, 1.5):
        old, new = draw.normal(size=7).tolist(), (draw.normal(size=6) + shift).tolist()
        exact = mannwhitneyu(new, old, method="exact").pvalue
        assert permutation_p_value({"": old}, {"": new}, generator()) == pytest.approx(exact)
        assert permutation_p_value({"": old}, {"": new}, generator(), 1_500) == pytest.approx(exact, abs=0.04)


def test_two_strata_are_all_exchanges_written_out() -> None:
    old, new = {"a": [1.0, 2.0], "b": [3.0, 5.0]}, {"a": [2.0, 4.0], "b": [4.0, 6.0]}

    def share(before: tuple[float, ...], after: tuple[float, ...]) -> float:
        return float(np.mean([(a > b) + 0.5 * (a == b) for a in after for b in before]))

    def exchanges(name: str) -> list[float]:
        games = [*old[name], *new[name]]
        return [
            share(tuple(games[i] for i in range(4) if i not in chosen), tuple(games[i] for i in chosen))
            for chosen in itertools.combinations(range(4), 2)
        ]

    observed = sum(share(tuple(old[name]), tuple(new[name])) for name in old) / 2
    drawn = [(first + second) / 2 for first in exchanges("a") for second in exchanges("b")]
    exact = np.mean([abs(each - 0.5) >= abs(observed - 0.5) - 1e-9 for each in drawn])
    assert permutation_p_value(old, new, generator()) == pytest.approx(exact)
    assert permutation_p_value(old, new, generator(), 35) == pytest.approx(exact, abs=0.3)


def test_it_falls_as_players_grow_apart_to_the_least_that_so_few_games_can_show() -> None:
    old = [float(number) for number in range(10)]
    found = [permutation_p_value({"": old}, {"": [each + shift for each in old]}, generator(), 100_000)
             for shift in (0.0, 2.0, 4.0, 6.0, 8.5, 100.0)]  # fmt: skip
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    assert found[-1] <= 2 / comb(20, 10) + 3e-5


def test_equal_players_are_called_different_one_time_in_twenty() -> None:
    draw = np.random.default_rng(2)
    calls = [
        permutation_p_value({"": draw.normal(size=6).tolist()}, {"": draw.normal(size=6).tolist()}, generator(), 500)
        for _ in range(400)
    ]
    assert 0.02 < np.mean([p <= 0.05 for p in calls]) < 0.08


def test_strata_that_do_not_fit_are_refused() -> None:
    for before, after in (({}, {}), ({"a": [1.0]}, {"b": [1.0]}), ({"a": [1.0]}, {"a": []})):
        with pytest.raises(ValueError, match="strat"):
            permutation_p_value(before, after, generator())
