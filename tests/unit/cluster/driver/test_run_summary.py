from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from cluster.driver.run_summary import RunSummary
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from tests.measured import CHAIRS, DIPLOMACY
from tests.unit.grpo_core.support.cases import tiny_model


def test_the_summary_has_the_policys_size_once_there_is_a_checkpoint(tmp_path: Path) -> None:
    folder, model = RunFolder(tmp_path), tiny_model()
    summary = RunSummary(folder, "a", "0f", None)

    def written() -> object:
        summary.write(0, defaultdict(float))
        return json.loads(folder.summary.read_text())["policy"]

    assert written() is None
    learner = Learner(model, LearnerSettings(), GroupingSettings(), seed=0)
    weights = save_checkpoint(tmp_path, learner, model.save_pretrained, {}) / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(b"\xff" * len(whole))
    assert written() is None, "who resumes gets the error; a summary is written all the same"
    weights.write_bytes(whole)
    count = sum(value.numel() for value in model.parameters())
    assert written() == {"parameters": count, "trained_parameters": count}


def test_an_evaluation_counts_with_the_same_games_and_facts_alone(tmp_path: Path) -> None:
    summary = RunSummary(RunFolder(tmp_path), "a", "0f", None)
    row = {"checkpoint": "checkpoints/0", "against": "random", "games": 70, "until_year": 1905, "by_country": {}}
    summary.add_evaluation("untrained", row, 1.0)

    def known(games: int = 70, against: str = "random", **facts: str | int) -> bool:
        return summary.has_evaluation({"untrained", "trained"}, "checkpoints/0", against, games, facts)

    assert known(until_year=1905)
    assert known()
    assert not known(until_year=1908)
    assert not known(games=7, until_year=1905)
    assert not known(against="greedy", until_year=1905)
    assert not known(hands=1)
    assert not summary.has_evaluation({"trained"}, "checkpoints/0", "random", 70, {})


def test_start_values_are_the_main_measure_of_the_untrained_policy(tmp_path: Path) -> None:
    for measured, name in ((DIPLOMACY, "mean_centers"), (CHAIRS, "mean_chips")):
        summary = RunSummary(RunFolder(tmp_path), "a", "0f", None)
        assert summary.start_values(measured) == {}
        cells = {role: {name: float(number)} for number, role in enumerate(measured.roles)}
        for label, checkpoint in (("trained", "checkpoints/6"), ("untrained", "checkpoints/0")):
            shown = cells if label == "untrained" else {}
            summary.add_evaluation(label, {"checkpoint": checkpoint, "against": "x", measured.by_role: shown}, 1.0)
        assert summary.start_values(measured) == {role: float(i) for i, role in enumerate(measured.roles)}
