from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import linalg, stats

from grpo_core.statistics.estimate import CENTERS, Estimate
from grpo_core.statistics.means import clustered_mean, stratified_mean
from grpo_core.statistics.mixed_tables import (
    Seat,
    mixed_difference,
    mixed_mean,
    mixed_rate,
    mixed_rate_difference,
)
from grpo_core.statistics.rates import rate_interval
from tests.unit.grpo_core.support.simulated_games import COUNTRIES, play_tables


def seats_of(player: int, players: np.ndarray, values: np.ndarray) -> list[Seat]:
    """A player's seats; who sits where, and what each seat got, have shape (games, 7)."""
    places = zip(*np.nonzero(players == player), strict=True)
    return [Seat(int(game), COUNTRIES[seat], float(values[game, seat])) for game, seat in places]


def mixed_games(games: int, seed: int) -> tuple[list[Seat], list[Seat]]:
    """Two players with three and two seats a game; a third one has the others."""
    rng = np.random.default_rng(seed)
    players = np.array([rng.permutation([0, 0, 0, 1, 1, 2, 2]) for _ in range(games)])
    centers = play_tables(np.array([1.0, 2.0, 1.5])[players], rng)
    return seats_of(0, players, centers), seats_of(1, players, centers)


def by_matrices(players: Sequence[Sequence[Seat]], strata: Sequence[str]) -> tuple[float, float, float]:
    """Mean or difference, its CR2 variance and degrees of freedom, by the matrices of the definition."""
    seats = [(player, seat) for player, own in enumerate(players) for seat in own]
    cells = [(player, name) for player in range(len(players)) for name in strata]
    design = np.array([[float((player, seat.stratum) == cell) for cell in cells] for player, seat in seats])
    signs = (1,) if len(players) == 1 else (-1, 1)
    contrast = np.array([signs[player] / len(strata) for player, _ in cells])
    values = np.array([seat.value for _, seat in seats])
    inverse = np.linalg.inv(design.T @ design)
    hat = design @ inverse @ design.T
    residuals = values - hat @ values
    cell_of = design.argmax(1)
    variances = np.array(
        [residuals[cell_of == c] @ residuals[cell_of == c] / ((cell_of == c).sum() - 1) for c in cell_of]
    )
    variance, columns = 0.0, []
    for game in dict.fromkeys(seat.game for _, seat in seats):
        own = np.array([seat.game == game for _, seat in seats])
        adjusted = linalg.fractional_matrix_power(np.eye(own.sum()) - hat[np.ix_(own, own)], -0.5)
        weights = contrast @ inverse @ design[own].T @ np.real(adjusted)
        variance += float(weights @ residuals[own]) ** 2
        columns.append((np.eye(len(values)) - hat)[:, own] @ weights)
    influence = np.array(columns)
    matrix = influence @ np.diag(variances) @ influence.T
    freedom = np.trace(matrix) ** 2 / np.square(matrix).sum()
    return float(contrast @ inverse @ design.T @ values), variance, float(freedom)


def test_means_and_differences_are_those_of_the_defining_matrices() -> None:
    first, second = mixed_games(24, seed=1)
    mean, variance, freedom = by_matrices([first], COUNTRIES)
    found = mixed_mean(first, COUNTRIES)
    assert found is not None
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.interval == pytest.approx((mean - half, mean + half))
    mean, variance, freedom = by_matrices([first, second], COUNTRIES)
    compared = mixed_difference(first, second, COUNTRIES, level=0.99)
    assert compared is not None
    half = stats.t.ppf(0.995, freedom) * math.sqrt(variance)
    assert compared.interval == pytest.approx((mean - half, mean + half))
    assert compared.n == len(first) + len(second)


def test_several_seats_of_a_game_in_one_stratum_follow_the_matrices_too() -> None:
    rng = np.random.default_rng(5)
    seats = [Seat(int(game), "ab"[place % 2], float(rng.normal())) for place, game in enumerate(rng.integers(0, 6, 30))]
    mean, variance, freedom = by_matrices([seats], "ab")
    found = mixed_mean(seats, ["a", "b"])
    assert found is not None
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.interval == pytest.approx((mean - half, mean + half))


def test_one_seat_a_game_is_the_stratified_mean() -> None:
    strata = {"a": [1.0, 4.0, 2.0], "b": [0.0, 9.0, 3.0, 3.0]}
    seats = [Seat((name, number), name, value) for name, own in strata.items() for number, value in enumerate(own)]
    found, plain = mixed_mean(seats, ["b", "a"], CENTERS), stratified_mean(strata, CENTERS)
    assert found is not None
    assert plain is not None
    assert (found.mean, found.n) == (pytest.approx(plain.mean), 7)
    assert found.interval == pytest.approx(plain.interval)


def test_one_stratum_is_the_clustered_mean() -> None:
    clusters = [[0.0, 1.0, 2.0], [5.0], [2.0, 2.0]]
    seats = [Seat(game, "a", value) for game, own in enumerate(clusters) for value in own]
    found, plain = mixed_mean(seats, ["a"]), clustered_mean(clusters)
    assert found is not None
    assert plain is not None
    assert found.interval == pytest.approx(plain.interval)


def test_who_has_all_seats_of_every_table_has_a_sure_mean() -> None:
    rng = np.random.default_rng(3)
    centers = play_tables(np.ones((10, 7)), rng)
    found = mixed_mean(seats_of(0, np.zeros((10, 7)), centers), COUNTRIES, CENTERS)
    assert found is not None
    assert found.interval == pytest.approx((34 / 7, 34 / 7))


def test_what_two_players_share_in_a_game_leaves_their_difference() -> None:
    rng = np.random.default_rng(6)
    luck = rng.normal(0, 10, 40)
    first = [Seat(game, "ab"[game % 2], luck[game] + rng.normal(0, 0.1)) for game in range(40)]
    second = [Seat(game, "ab"[game % 2], 1 + luck[game] + rng.normal(0, 0.1)) for game in range(40)]
    found = mixed_difference(first, second, ["a", "b"])
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 0.9 < found.low < 1 < found.high < 1.1


def test_rates_stay_inside_their_range_and_exist_without_events() -> None:
    none = [Seat(game, "ab"[seat], 0.0) for game in range(20) for seat in range(2)]
    some = [Seat(game, "ab"[seat], float(game == seat)) for game in range(20) for seat in range(2)]
    without, with_events = mixed_rate(none, ["a", "b"]), mixed_rate(some, ["a", "b"])
    assert without is not None
    assert with_events is not None
    assert without.low == 0.0
    assert without.high is not None
    assert without.high > rate_interval(0.0, 20)[1]  # games count, not seats, and their variance is not known exactly
    assert with_events.mean == pytest.approx(0.05)
    compared = mixed_rate_difference(none, some, ["a", "b"])
    assert compared is not None
    assert compared.low is not None
    assert compared.high is not None
    assert -1 < compared.low < 0 < 0.05 < compared.high < 1
    assert without.mean - without.high <= compared.low


def test_missing_strata_and_games_that_have_all_seats_of_one() -> None:
    seats = [Seat(0, "a", 1.0), Seat(1, "a", 2.0), Seat(0, "b", 3.0)]
    assert mixed_mean(seats, ["a", "b"]) == Estimate(2.25, None, None, 3)
    assert mixed_difference(seats, seats, ["a", "b"]) == Estimate(0.0, None, None, 6)
    for found in (mixed_rate(seats[:1], ["a"]), mixed_rate_difference(seats[:1], seats[:1], ["a"])):
        assert found is not None
        assert found.interval is None
    assert mixed_mean(seats, ["a", "b", "c"]) is None
    assert mixed_mean([], ["a"]) is None
    assert mixed_rate([], ["a"]) is None
    assert mixed_difference(seats, [], ["a", "b"]) is None
    assert mixed_rate_difference(seats, [], ["a", "b"]) is None
    with pytest.raises(ValueError, match=r"strata \['b'\]"):
        mixed_mean(seats, ["a"])


def test_equal_differences_say_nothing_of_others() -> None:
    first = [Seat(game, "ab"[game % 2], 4.0) for game in range(8)]
    second = [Seat(game, "ab"[game % 2], 5.0) for game in range(8)]
    assert mixed_difference(first, second, ["a", "b"]) == Estimate(1.0, None, None, 16)
