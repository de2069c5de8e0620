"""The TRL bench: TRL's own trainer and the learner make the same update from the same freely decoded turns."""

import pytest
import torch

from cluster.bench.learner import trl_step
from cluster.bench.learner.trl_step import check_agreement, make_side, side_episodes

pytestmark = pytest.mark.system

VOCABULARY = 800
SIDES: tuple[trl_step.Side, ...] = ("free", "trl", "trl_completions")


def test_learner_and_trl_make_the_same_update() -> None:
    pytest.importorskip("trl")
    sides = {side: make_side(side, VOCABULARY) for side in SIDES}
    before = {name: value.detach().clone() for name, value in sides["free"].model.named_parameters()}
    steps = {side: made.prepared(side_episodes(side, VOCABULARY, 4)) for side, made in sides.items()}
    check_agreement({side: step() for side, step in steps.items()})
    ours = dict(sides["free"].model.named_parameters())
    for side in ("trl", "trl_completions"):
        for name, theirs in sides[side].model.named_parameters():
            # Adam's first step is the learning rate times the gradient's sign: where a gradient is about 0, rounding
            # alone decides it. Anywhere else the two are the same.
            moved = (ours[name] - before[name]).abs()
            differs = (ours[name] - theirs).abs() > 0.05 * moved + 1e-8
            assert differs.float().mean() < 0.01, (side, name)
    from trl.trainer import utils

    assert utils._use_triton(torch.device("cpu")) is False, "TRL is left as it was"


def test_the_bench_measures_learner_and_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl")
    monkeypatch.setattr(trl_step, "CASES", (trl_step.Case(VOCABULARY, 4, 10, most_rounds=1),))
    figures = trl_step.run(rounds=1)
    rates = [figure for figure in figures if figure.unit == "tokens/s"]
    assert len(rates) == 4
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)
