from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from cluster.driver.run_summary import RunSummary
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
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
