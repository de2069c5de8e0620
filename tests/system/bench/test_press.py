"""The bench of games with press runs, and counts letters as decisions of their own."""

import re

import pytest

from cluster.bench.system.press import run

pytestmark = pytest.mark.system


def test_the_bench_of_press_has_letters_beside_orders() -> None:
    (figure,) = run(rounds=1)
    assert figure.name == "press"
    assert figure.ours > 0
    assert figure.yardstick > 0
    share = re.search(r"(\d+)% of the decisions are letters", figure.note)
    assert share is not None
    assert 30 < int(share[1]) < 80
