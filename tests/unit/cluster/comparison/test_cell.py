"""When a run of a comparison is measured."""

import pytest

from cluster.comparison.cell import Cell, run_cell


@pytest.mark.parametrize(("budget", "measured"), [(64, [0, 32, 64]), (128, [0, 64, 128]), (80, [0, 32, 80])])
def test_a_budget_of_games_is_counted_in_games(budget, measured):
    cell = Cell("grpo_time", "kuhn_poker", 0, budget, 2, 16, measured_episodes=2, unit="episodes")
    rows = list(run_cell(cell))
    assert [row.episodes for row in rows] == pytest.approx(measured, abs=16 / 2)
    assert rows[-1].steps > 2 * rows[-1].episodes


def test_a_budget_of_steps_is_counted_in_steps():
    rows = list(run_cell(Cell("grpo_time", "cartpole_family", 0, 1000, 2, 5, measured_episodes=2)))
    longest_update = 5 * 200
    assert rows[1].steps == pytest.approx(500, abs=longest_update / 2)
    assert rows[2].steps == pytest.approx(1000, abs=longest_update / 2)
