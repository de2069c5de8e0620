"""The overlap bench: reading trainings, and their figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.bench import suite
from cluster.bench.system import overlap
from cluster.bench.system.overlap import Trained, figures, read
from cluster.configs.loader import load_config


def trained(seconds: float, centers: float, both: float) -> Trained:
    return Trained(seconds, 0.5, 0.8, both, {"random": centers}, {"random": (centers - 1, centers + 1)})


def test_training_is_read_from_its_newest_line(tmp_path: Path) -> None:
    lines = [
        {
            "schema": 1,
            "update": update,
            "time": 0.0,
            "metrics": {
                "entente_run_seconds_total": 10.0 * update,
                "entente_learner_busy_seconds_total": 4.0 * update,
                "entente_rollout_busy_seconds_total": 16.0 * update,
                "entente_overlap_seconds_total": 3.0 * update,
                "entente_workers": 2.0,
            },
        }
        for update in (1, 2)
    ]
    lines.append(
        {"schema": 1, "update": 2, "time": 0.0, "metrics": {"entente_evaluation_centers{against=random}": 4.0}}
    )
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = {"against": "random", "mean_centers": 4.0, "mean_centers_ci95": [3.5, 4.5]}
    (tmp_path / "summary.json").write_text(json.dumps({"evaluations": [row]}))
    assert read(tmp_path) == Trained(20.0, 0.4, 0.8, 0.3, {"random": 4.0}, {"random": (3.5, 4.5)})


def test_speeds_are_medians_and_strengths_are_means() -> None:
    ours = [trained(10.0, 4.0, 0.6), trained(30.0, 6.0, 0.4), trained(20.0, 5.0, 0.5)]
    theirs = [trained(40.0, 4.0, 0.0), trained(30.0, 4.0, 0.0), trained(50.0, 4.0, 0.0)]
    speed, strength = figures(ours, theirs)
    assert (speed.ours, speed.yardstick, speed.ratio) == (20.0, 40.0, 2.0)
    assert "overlapping: learner busy 50% of the time, engine 80%, both at once 50%" in speed.note
    assert "in turn: learner busy 50% of the time, engine 80%, both at once 0%" in speed.note
    assert (strength.ours, strength.yardstick) == (5.0, 4.0)
    assert strength.note.startswith("by seed: 4.00 [3.00, 5.00], 6.00 [5.00, 7.00], ")


def test_overrides_are_valid_and_the_bench_runs_only_by_name() -> None:
    config = load_config("laptop", [*overlap._OVERRIDES, "rollout.max_staleness=0"])
    assert config.evaluation.against == ()
    assert config.evaluation.final_against == ("random", "dumbbot")
    assert load_config("laptop", ()).rollout.max_staleness == overlap.STALENESS
    assert "overlap" not in suite.SUITE
    assert "overlap" in suite.LONG


def test_failed_training_raises_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_OVERRIDES", ("learner.updates=-1",))
    with pytest.raises(overlap.RunError, match=r"a training to be measured failed: .*updates"):
        overlap.train(tmp_path / "run", 0, 0)
