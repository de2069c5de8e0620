"""Training that begins in scenarios: they are mixed with whole games, and form groups."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cluster.runs.folder import audits
from tests.system.support.training_process import ENTENTE

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


def entente(*words: str) -> str:
    done = subprocess.run([*ENTENTE, *words], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_policy_trains_on_scenarios_and_whole_games(tmp_path: Path) -> None:
    run, keys = tmp_path / "run", ["country+fork", "country+scenario"]
    sets = (
        'game.scenarios=["opening", "crisis"]',
        "game.scenario_share=0.5",
        f"grouping.keys={json.dumps(keys)}",
        "evaluation.games_per_country=1",
        "metrics.display=false",
    )
    entente("train", "smoke", "--run-dir", str(run), *(part for each in sets for part in ("--set", each)))
    summary = json.loads((run / "summary.json").read_text())
    assert [row["label"] for row in summary["evaluations"]] == ["untrained", "trained"]
    levels = Counter[str]()
    for record in audits(run).values():
        levels.update(record["samples_by_level"])
    assert levels["country+fork"] > 0  # games of scenarios
    assert levels["country+scenario"] > 0  # whole games have no fork
    assert "country+scenario" in entente("groups", "audit", str(run))
    entente("scenarios", "run", str(run), "hold", "--family", "opening", "--country", "france", "--repeats", "1")
