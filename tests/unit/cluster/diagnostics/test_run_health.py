"""``entente doctor --run`` on runs with known problems."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.configs.loader import dump_config, load_config
from cluster.diagnostics.finding import Finding
from cluster.diagnostics.run_health import examine_run
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import note_restart
from services.metrics.catalogue import Value
from services.metrics.jsonl import JsonlSink

BEGAN = 1_764_000_000.0
Figures = Callable[[int], Mapping[str, Value]]


def healthy(update: int) -> dict[str, Value]:
    """The metrics of update ``update`` >= 1 of a healthy run."""
    noise = random.Random(update).gauss(0.0, 0.2)
    return {
        "entente_updates_total": float(update),
        "entente_episode_reward": 1.0 + 0.02 * update + noise,
        "entente_run_seconds_total": 10.0 * update,
        "entente_update_seconds": 10.0,
        "entente_learner_busy_seconds_total": 7.0 * update,
        "entente_rollout_busy_seconds_total": 18.0 * update,
        "entente_workers": 2.0,
        "entente_decisions_total": 1000.0 * update,
        "entente_truncated_decisions_total": 1.0 * update,
        "entente_defective_orders_total": 0.0,
        "entente_episodes_total": 56.0 * update,
        "entente_stale_episodes_total": 0.0,
        "entente_fallback_fraction": 0.05,
        "entente_zero_variance_fraction": 0.02,
        "entente_kl": 0.01,
        "entente_ratio_max": 4.0,
        "entente_grad_norm": 0.3,
        "entente_entropy": 0.3,
        "entente_poison_episodes_total": 0.0,
        "entente_worker_restarts_total": 0.0,
        "entente_swap_failures_total{cause=died}": 0.0,
    }


def run_with(folder: Path, figures: Figures, updates: int = 60) -> dict[str, Finding]:
    """The findings by subject."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.toml").write_text(dump_config(load_config("smoke", ("learner.updates=60",))))
    times = iter(BEGAN + 10.0 * update for update in range(updates))
    sink = JsonlSink(folder / "metrics.jsonl", clock=lambda: next(times))
    for update in range(1, updates + 1):
        sink.record(update, figures(update))
    sink.close()
    findings = examine_run(folder, lambda: BEGAN + 10.0 * updates)
    assert all("\n" not in finding.text for finding in findings)
    return {finding.subject: finding for finding in findings}


def test_healthy_run_is_ok(tmp_path: Path) -> None:
    findings = run_with(tmp_path, healthy)
    assert {finding.level for subject, finding in findings.items() if subject != "checkpoints"} == {"ok"}
    assert findings["run"].text == "done, 60 of 60 updates"
    assert "70% of the time, an engine for 90%" in findings["speed"].text


def starving(update: int) -> Mapping[str, Value]:
    return healthy(update) | {"entente_learner_busy_seconds_total": 2.0 * update}


def both_wait(update: int) -> Mapping[str, Value]:
    return healthy(update) | {
        "entente_learner_busy_seconds_total": 2.0 * update,
        "entente_rollout_busy_seconds_total": 4.0 * update,
    }


def flat(update: int) -> Mapping[str, Value]:
    return healthy(update) | {"entente_episode_reward": 1.0 + random.Random(update).gauss(0.0, 0.2)}


def zero_variance(update: int) -> Mapping[str, Value]:
    return dict(flat(update)) | {"entente_zero_variance_fraction": 0.9}


def falling(update: int) -> Mapping[str, Value]:
    return healthy(update) | {"entente_episode_reward": 2.0 - 0.02 * update}


def grown(name: str, factor: float) -> Figures:
    def figures(update: int) -> Mapping[str, Value]:
        before = healthy(update)[name]
        assert isinstance(before, float)
        return healthy(update) | {name: before * (factor if update > 30 else 1.0)}

    return figures


def fixed(name: str, value: float) -> Figures:
    return lambda update: healthy(update) | {name: value}


def counted(name: str, each: float) -> Figures:
    return lambda update: healthy(update) | {name: each * update}


@pytest.mark.parametrize(
    ("figures", "subject", "hint"),
    [
        (starving, "speed", "the learner waits for games: more rollout.actors"),
        (both_wait, "speed", "both wait"),
        (grown("entente_update_seconds", 3.0), "speed", "took 10 s in the beginning"),
        (flat, "learning", "no rise to be seen; a larger learner.learning_rate"),
        (zero_variance, "learning", "90% of the samples are in zero-variance groups"),
        (falling, "learning", "it falls"),
        (fixed("entente_kl", 0.3), "divergence", "KL of behaviour to learner 0.3"),
        (fixed("entente_ratio_max", 500.0), "divergence", "importance ratios up to 500"),
        (grown("entente_grad_norm", 20.0), "divergence", "gradient norms grew from 0.3 to 6"),
        (grown("entente_entropy", 0.1), "divergence", "entropy fell from 0.3 to 0.03"),
        (counted("entente_truncated_decisions_total", 100.0), "data", "raise inference.max_completion_length"),
        (counted("entente_defective_orders_total", 500.0), "data", "inference.decoding = constrained"),
        (counted("entente_stale_episodes_total", 10.0), "data", "too old"),
        (fixed("entente_fallback_fraction", 0.8), "data", "coarser key"),
        (fixed("entente_poison_episodes_total", 3.0), "data", "3 entries of the buffer could not be read"),
        (counted("entente_worker_restarts_total", 1.0), "workers", "60 rollout actors were replaced"),
    ],
)
def test_each_problem_is_reported_with_advice(tmp_path: Path, figures: Figures, subject: str, hint: str) -> None:
    findings = run_with(tmp_path, figures)
    assert findings[subject].level == "warn"
    assert hint in findings[subject].text
    others = {name for name, finding in findings.items() if finding.level != "ok"} - {subject, "checkpoints"}
    assert others <= {"data"}, "one trouble was taken for another"


def test_nearly_full_server_is_reported(tmp_path: Path) -> None:
    def figures(update: int) -> Mapping[str, Value]:
        full = {"entente_buffer_server_bytes": 90.0 * 2**20, "entente_buffer_server_bytes_limit": 100.0 * 2**20}
        return healthy(update) | full

    finding = run_with(tmp_path, figures)["replay memory"]
    assert (finding.level, "90 MiB of 100" in finding.text) == ("warn", True)


def test_few_updates_give_no_verdict(tmp_path: Path) -> None:
    assert "too few" in run_with(tmp_path / "one", healthy, updates=1)["learning"].text
    assert "too few" in run_with(tmp_path / "ten", falling, updates=10)["learning"].text


def test_stopped_and_hanging_runs_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    stopped = run_with(folder, healthy, updates=40)["run"]
    assert stopped.text == f"stopped at 40 of 60 updates; go on with: entente train --resume --run-dir {folder}"
    assert stopped.level == "warn"
    with RunFolder(folder).held():
        (under_way, *_) = examine_run(folder, lambda: BEGAN + 405.0)
        (hanging, *_) = examine_run(folder, lambda: BEGAN + 4000.0)
    assert (under_way.level, under_way.text) == ("ok", "under way, 40 of 60 updates")
    assert hanging.level == "warn"
    assert "the last one was 3610 s ago and usually they take 10 s" in hanging.text


def test_nonfinite_loss_is_reported_before_the_second_update(tmp_path: Path) -> None:
    for updates in (0, 40):
        folder = tmp_path / str(updates)
        run_with(folder, healthy, updates)
        sink = JsonlSink(folder / "metrics.jsonl", resume_after=updates)
        sink.record(updates, {"entente_nonfinite_updates_total": 1.0})  # as ``MetricsRecorder`` leaves it
        sink.close()
        (finding,) = [finding for finding in examine_run(folder) if finding.subject == "divergence"]
        assert finding.level == "warn"
        assert "1 updates with figures that were not finite numbers" in finding.text


def test_an_evaluation_is_not_taken_for_a_hang(tmp_path: Path) -> None:
    run_with(tmp_path, healthy, updates=40)
    evaluates = load_config("smoke", ("learner.updates=60", "evaluation.every=20", "rollout.block_timeout_s=900"))
    (tmp_path / "config.toml").write_text(dump_config(evaluates))
    with RunFolder(tmp_path).held():
        (evaluating, *_) = examine_run(tmp_path, lambda: BEGAN + 700.0)
        (late, *_) = examine_run(tmp_path, lambda: BEGAN + 4000.0)
        sink = JsonlSink(tmp_path / "metrics.jsonl", resume_after=40, clock=lambda: BEGAN + 700.0)
        sink.record(40, {"entente_evaluation_centers{against=random}": 4.0})
        sink.close()
        (done, *_) = examine_run(tmp_path, lambda: BEGAN + 1400.0)
    assert (evaluating.level, evaluating.text) == ("ok", "under way, 40 of 60 updates; evaluating for 310 s")
    assert (late.level, done.level) == ("warn", "warn")
    assert "the last one was 700 s ago" in done.text


def test_frequent_restarts_are_a_warning(tmp_path: Path) -> None:
    assert "restarts" not in run_with(tmp_path, healthy)
    for version in (3, 5, 8):
        note_restart(tmp_path, version, "the learner died")
    for later, level, lately in ((10.0, "warn", 3), (200_000.0, "ok", 0)):
        found = {finding.subject: finding for finding in examine_run(tmp_path, lambda later=later: time.time() + later)}
        assert found["restarts"].level == level
        text = f"went on by itself 3 times, {lately} of them within a day; the last time at update 8: the learner died"
        assert text in found["restarts"].text


def test_the_command_checks_either_a_config_or_a_run(tmp_path: Path) -> None:
    nothing = CliRunner().invoke(app, ["doctor", "--run", str(tmp_path)])
    assert nothing.exit_code == 2
    assert "there is no run in" in nothing.output
    run_with(tmp_path / "run", healthy)
    looked = CliRunner().invoke(app, ["doctor", "--run", str(tmp_path / "run")])
    assert looked.exit_code == 0
    assert "ok    run: done, 60 of 60 updates" in looked.output
    both = CliRunner().invoke(app, ["doctor", "laptop", "--run", str(tmp_path / "run")])
    assert both.exit_code == 2


def test_a_run_of_another_format_is_refused_in_one_line(tmp_path: Path) -> None:
    run_with(tmp_path / "run", healthy, updates=2)
    (tmp_path / "run" / "run_id").write_text("demo-1\n")
    with pytest.raises(RunError, match=r"^the run in .* has format 1, and this version .*"):
        examine_run(tmp_path / "run")
