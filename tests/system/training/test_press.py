"""A whole run with press: it learns letters and orders, counts conduct, and pays for talk where that is asked for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cluster.runs.folder import audits
from tests.system.support.training_process import ENTENTE

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

SMALL = (
    "policy.hidden_size=32",
    "policy.layers=1",
    "policy.intermediate_size=32",
    "imitation.games=7",
    "imitation.epochs=1",
    "imitation.until_year=1901",
    "game.until_year=1901",
    "game.press_rounds=1",
    "rollout.actors=1",
    "rollout.games_per_actor=14",
    "rollout.num_generations=2",
    "opponents.self_play_seats=2",
    "learner.episodes_per_update=14",
    "learner.minibatches=1",
    "learner.updates=2",
    'evaluation.against=["breaker"]',
    "evaluation.games_per_country=1",
    "evaluation.until_year=1901",
    "metrics.display=false",
    "inference.engine=torch",
)


def test_talk_is_paid_for_and_logged_apart(tmp_path: Path) -> None:
    run = tmp_path / "run"
    changed = (*SMALL, "game.reward={center_change=1.0, speaking=0.5, listening=0.0}")
    words = ["train", "press", "--run-dir", str(run), *(word for each in changed for word in ("--set", each))]
    done = subprocess.run([*ENTENTE, *words], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for record in audits(run).values():
        metrics = record["metrics"]
        assert metrics["reward/speaking"] > 0  # two of the partners are the policy itself, and read its letters
        assert metrics["reward/listening"] != 0
    rows = json.loads((run / "summary.json").read_text())["press"]
    assert {"honesty", "honesty_ci95", "letters", "effective_cross_supports_ci95"} <= rows["trained"]["breaker"].keys()
    assert rows.keys() >= {"untrained", "trained", "muted"}
