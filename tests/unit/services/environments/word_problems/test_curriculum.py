"""What is trained next, from counts of right completions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.word_problems.curriculum import (
    Bounds,
    Cell,
    Tries,
    choose,
    mixed_group_chance,
    open_cells,
    pass_rate,
    weights,
)
from services.environments.word_problems.problem import DIFFICULTIES

FAMILIES = ("ages", "sharing")
COUNTS = st.integers(0, 200).flatmap(lambda tried: st.builds(Tries, st.just(tried), st.integers(0, tried)))
CELLS = st.tuples(st.sampled_from(FAMILIES), st.sampled_from(DIFFICULTIES))
HISTORIES = st.dictionaries(CELLS, COUNTS)


def test_without_any_history_every_family_begins_at_the_easiest() -> None:
    assert open_cells({}, FAMILIES) == [("ages", 1), ("sharing", 1)]
    shares = weights({}, open_cells({}, FAMILIES), group_size=4)
    assert shares == pytest.approx({("ages", 1): 0.5, ("sharing", 1): 0.5})
    assert weights({}, [], group_size=4) == {}
    assert pass_rate(Tries()) is None


def test_a_solved_difficulty_opens_the_next_and_closes_above_the_upper_bound() -> None:
    assert open_cells({("ages", 1): Tries(100, 50)}, ["ages"]) == [("ages", 1), ("ages", 2)]
    assert open_cells({("ages", 1): Tries(100, 95)}, ["ages"]) == [("ages", 2)]
    assert open_cells({("ages", 1): Tries(100, 95), ("ages", 2): Tries(100, 2)}, ["ages"]) == [("ages", 1)]


def test_a_rate_counts_only_after_enough_tries() -> None:
    assert open_cells({("ages", 1): Tries(10, 10)}, ["ages"]) == [("ages", 1)]
    assert open_cells({("ages", 1): Tries(10, 10)}, ["ages"], Bounds(least_tries=10)) == [("ages", 2)]


def test_one_cell_stays_where_all_are_solved_or_none_is() -> None:
    solved: dict[Cell, Tries] = {("ages", difficulty): Tries(100, 100) for difficulty in DIFFICULTIES}
    assert open_cells(solved, ["ages"]) == [("ages", 1)]
    solved["ages", 5] = Tries(100, 99)
    assert open_cells(solved, ["ages"]) == [("ages", 5)]
    assert open_cells({("ages", 1): Tries(100, 0)}, ["ages"]) == [("ages", 1)]


@given(HISTORIES, st.integers(2, 16))
def test_any_history_leaves_something_to_draw(history: dict[Cell, Tries], group_size: int) -> None:
    cells = open_cells(history, FAMILIES)
    assert {family for family, _ in cells} == set(FAMILIES)
    shares = weights(history, cells, group_size)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) > 0
    assert choose(shares, 0.0) in cells
    assert choose(shares, 1 - 2**-53) in cells


@pytest.mark.parametrize("group_size", [2, 3, 5])
@pytest.mark.parametrize("tries", [Tries(), Tries(3, 1), Tries(4, 4)])
def test_the_chance_of_a_mixed_group_is_that_of_drawing_one_after_the_other(tries: Tries, group_size: int) -> None:
    total = 0.0
    for group in product((True, False), repeat=group_size):
        right, wrong, chance = 1 + tries.solved, 1 + tries.tried - tries.solved, 1.0
        for solved in group:
            chance *= (right if solved else wrong) / (right + wrong)
            right, wrong = right + solved, wrong + (not solved)
        total += chance * (0 < sum(group) < group_size)
    assert mixed_group_chance(tries, group_size) == pytest.approx(total)


def test_a_cell_that_is_always_or_never_solved_is_drawn_least() -> None:
    history = {("ages", 1): Tries(100, 100), ("ages", 2): Tries(100, 50), ("ages", 3): Tries(100, 0)}
    shares = weights(history, list(history), group_size=8)
    assert shares["ages", 1] == pytest.approx(shares["ages", 3])
    assert shares["ages", 2] > 4 * shares["ages", 1]
    assert shares["ages", 1] > 0.1 / 3
    assert mixed_group_chance(Tries(), 4) == pytest.approx(1 - 2 / 5)


def test_a_draw_walks_along_the_shares() -> None:
    shares: dict[Cell, float] = {("ages", 1): 0.25, ("ages", 2): 0.0, ("ages", 3): 0.75}
    assert [choose(shares, draw)[1] for draw in (0.0, 0.24, 0.25, 0.99)] == [1, 1, 3, 3]
    with pytest.raises(ValueError, match="a draw from 0"):
        choose(shares, 1.0)
    with pytest.raises(ValueError, match="a cell to choose"):
        choose({}, 0.5)
    with pytest.raises(ValueError, match="a cell to choose"):
        choose({("ages", 1): 0.0}, 0.5)


def test_counts_and_bounds_that_make_no_sense_are_refused() -> None:
    for tried, solved in ((1, 2), (-1, -1), (3, -1)):
        with pytest.raises(ValueError, match="no count"):
            Tries(tried, solved)
    for bounds in ((0.5, 0.5), (-0.1, 0.5), (0.5, 1.1), (0.1, 0.9, 0)):
        with pytest.raises(ValueError, match="bounds need"):
            Bounds(*bounds)
    with pytest.raises(ValueError, match="at least 2"):
        mixed_group_chance(Tries(), 1)
    with pytest.raises(ValueError, match="floor"):
        weights({}, [("ages", 1)], 4, floor=2)
