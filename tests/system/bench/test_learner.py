import pytest

from cluster.bench.learner.step import run

pytestmark = pytest.mark.system


def test_bench_compares_two_learners_with_the_same_loss():
    figure, *memory = run(1)  # raises where the losses differ
    assert figure.unit == "tokens/s"
    assert figure.ours > 0
    assert figure.yardstick > 0
    for estimate in memory:  # none without measurable peaks
        assert estimate.ours > 0
        assert estimate.yardstick > 0
