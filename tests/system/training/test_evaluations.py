"""Evaluations of a real run that is killed in the middle of each of them, and resumed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

SETTINGS = (
    *QUICK, "--set", "learner.updates=3", "--set", "learner.checkpoint_every=1", "--set", "evaluation.every=2",
    "--set", "evaluation.final_against=['greedy']",
)  # fmt: skip
# A process is killed in each of these.
CUT_SHORT = (
    "evaluating the untrained policy against six random",
    "evaluating the v2 policy against six random",
    "evaluating the trained policy against six greedy",
)


def test_an_evaluation_that_was_killed_is_made_again_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for number, stage in enumerate(CUT_SHORT):
        go_on = ("--resume",) if number else ()
        with TrainingProcess(run, *SETTINGS, *go_on, config=None if number else "smoke") as training:
            training.wait_until(lambda stage=stage, of=training: stage in of.output(), stage)
            training.kill()
            assert training.survivors() == []
    with TrainingProcess(run, *SETTINGS, "--resume", config=None) as training:
        assert training.finish() == 0, training.output()
        # Those that were not cut short are not made again.
        assert training.output().count("evaluating the") == 1
    rows = [
        (row["label"], row["checkpoint"], row["against"], row["games"])
        for row in json.loads((run / "summary.json").read_text())["evaluations"]
    ]
    assert rows == [
        ("untrained", "checkpoints/0", "random", 7),
        ("v2", "checkpoints/2", "random", 7),
        ("trained", "checkpoints/3", "random", 7),
        ("trained", "checkpoints/3", "greedy", 7),
    ]
    recorded = Counter(
        (line.update, name)
        for line in read_metrics(run / "metrics.jsonl")
        for name in line.metrics
        if name.startswith("entente_evaluation_centers{")
    )
    assert recorded == {
        (0, "entente_evaluation_centers{against=random}"): 1,
        (2, "entente_evaluation_centers{against=random}"): 1,
        (3, "entente_evaluation_centers{against=random}"): 1,
        (3, "entente_evaluation_centers{against=greedy}"): 1,
    }
