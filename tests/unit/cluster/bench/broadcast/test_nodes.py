"""The simulated figures of the bench of broadcasts, which take no real time and so are the same everywhere."""

import pytest

from cluster.bench.broadcast.nodes import _simulated


def test_one_receiver_gains_nothing_and_many_gain_what_the_learners_link_no_longer_sends() -> None:
    alone, many = _simulated(1), _simulated(16)
    assert alone.ratio == 1.0
    assert alone.yardstick == pytest.approx(0.8, rel=0.01)  # 100 MB at 1 Gbit/s
    assert many.yardstick == pytest.approx(16 * 0.8, rel=0.01)
    assert many.ratio > 6
    assert many.lower_is_better
    assert "links of 1 Gbit/s up and 1 down for each node" in many.note
    assert "sends 200 MB in the tree" in many.note
