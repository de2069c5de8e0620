"""Training on vLLM: it learns as on the torch engine, and goes on after vLLM's own process hangs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.support.training_process import TrainingProcess
from tests.system.vllm.test_deaths import check_training_after
from tests.system.vllm.test_training import ON_VLLM

pytestmark = pytest.mark.timeout(3600)


def test_training_continues_after_the_engines_process_hangs(tmp_path: Path) -> None:
    check_training_after("suspend", tmp_path / "run")


def test_training_on_vllm_improves_the_policy(tmp_path: Path) -> None:
    """A tenth of the demo must improve the policy as much as the torch engine does in as many games."""
    run = tmp_path / "run"
    arguments = ("--set", "learner.updates=9", "--set", "evaluation.final_against=[]", "--set", "metrics.display=false")
    with TrainingProcess(run, *ON_VLLM, *arguments, config="laptop") as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    rows = {row["label"]: row for row in json.loads((run / "summary.json").read_text())["evaluations"]}
    assert rows["untrained"]["mean_centers"] < 4.7
    assert rows["trained"]["mean_centers_ci95"][0] > rows["untrained"]["mean_centers_ci95"][1]
