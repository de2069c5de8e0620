"""The game loop's bench runs, and many random games equal those of a plain loop over the engine."""

import pytest

from cluster.bench.system.game_loop import play_ours, play_plain, run

pytestmark = pytest.mark.system


def test_the_game_loop_bench_returns_one_figure():
    (figure,) = run(rounds=1)
    assert figure.name == "game loop"
    assert figure.ours > 0
    assert figure.yardstick > 0


def test_sixty_random_games_to_1910_are_equal_in_both_loops():
    for seed in range(100, 160):
        assert play_ours(seed) == play_plain(seed), f"seed {seed}"
