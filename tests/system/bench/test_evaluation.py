"""The evaluation's bench runs, and both sides play the same games."""

import pytest

from cluster.bench.system import evaluation

pytestmark = pytest.mark.system


def test_the_evaluation_bench_returns_one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "GAMES_PER_COUNTRY", 1)
    (figure,) = evaluation.run(rounds=1)
    assert figure.name == "evaluation"
    assert figure.ours > 0
    assert figure.yardstick > 0
