"""The bench of the game loop: it runs, and many random games are the plain engine loop's own games."""

import pytest

from cluster.bench.system.game_loop import play_ours, play_plain, run

pytestmark = pytest.mark.system


def test_the_bench_reports_one_figure():
    (figure,) = run(rounds=1)
    assert figure.name == "game loop"
    assert figure.ours > 0
    assert figure.yardstick > 0


def test_sixty_random_games_to_1910_are_the_same_through_both_loops():
    for seed in range(100, 160):
        assert play_ours(seed) == play_plain(seed), f"seed {seed}"
