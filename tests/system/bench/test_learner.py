import pytest

from cluster.bench.learner.step import run

pytestmark = pytest.mark.system


def test_the_bench_compares_two_learners_with_the_same_loss():
    (figure,) = run(1)  # raises where the losses differ
    assert figure.unit == "tokens/s"
    assert figure.ours > 0
    assert figure.yardstick > 0
