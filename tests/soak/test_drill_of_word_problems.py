"""The learner and the driver of a run of word problems are killed: no episode is lost or used twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.training.test_worlds import PROBLEMS, entente

pytestmark = pytest.mark.timeout(3600)


def test_word_problems_lose_and_double_nothing_when_learner_and_driver_are_killed(tmp_path: Path) -> None:
    config, out = tmp_path / "problems.toml", tmp_path / "drill.json"
    config.write_text(PROBLEMS.replace('control = "same"\n', ""))
    only = ["--only", "learner", "--only", "driver", "--no-compare"]
    entente("drill", "--config", str(config), "--faults", "2", "--json", str(out), *only)
    assert all(check["passed"] for check in json.loads(out.read_text())["checks"])
