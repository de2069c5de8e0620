"""Training on vLLM: it plays its own snapshots, and leaves no process behind."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import audits, episodes_used, last_update
from services.metrics.jsonl import read_metrics
from tests.benchmarks.monitoring.replay import fill_storage
from tests.system.support.monitoring.panel_sources import VLLM, shown_panels, source_of
from tests.system.support.monitoring.prometheus_server import installed, serving
from tests.system.support.training_process import QUICK, TrainingProcess

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

ON_VLLM = ("--set", "inference.engine=vllm", "--set", "inference.kv_cache_mib=128")
EPISODES = 14  # of one update of smoke.toml


def test_snapshots_take_turns_with_the_learner_in_one_engine(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with TrainingProcess(
        run, *ON_VLLM, "--set", "inference.opponent_engine=turns", "--set", "learner.updates=6"
    ) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    used = episodes_used(run)
    assert len(used) == 6 * EPISODES
    assert set(used.values()) == {1}
    assert audits(run)[1]["metrics"]["fresh_logprob_gap"] < 1e-4
    assert all(record["metrics"]["staleness_max"] <= 1 for record in audits(run).values())
    last = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics][-1]
    assert last["entente_weight_switches_total"] > 0
    assert 0 < last["entente_cached_prompt_tokens_total"] < last["entente_prompt_tokens_total"]
    members = json.loads((run / "population.json").read_text())["members"]
    assert {"policy/v2", "policy/v4"} <= {member["id"] for member in members}
    check_panels_of_vllm(run / "metrics.jsonl", tmp_path)


def check_panels_of_vllm(metrics: Path, folder: Path) -> None:
    """The panels that only vLLM feeds show this run's counters, which the real exporter serves again."""
    if not (installed("prometheus") and installed("promtool")):
        return
    lines = read_metrics(metrics)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    fill_storage(metrics, VLLM, folder / "tsdb", every_s=0.5)
    only = [(panel.title, query) for _, panel in shown_panels() for query in panel.queries if source_of(query) == VLLM]
    assert len(only) == 2
    with serving(config, folder / "tsdb") as server:
        for title, query in only:
            expr = query.expr.replace("$run", VLLM).replace("$window", "5m")
            found = server.over(expr, lines[0].time, lines[-1].time + 1.0)
            assert any(float(value) > 0 for series in found for _, value in series["values"] if value != "NaN"), title


def test_the_engines_process_ends_with_its_actor(tmp_path: Path) -> None:
    """The learner's adapter and frozen ones share one engine, whose process dies with the actor that owns it."""
    run = tmp_path / "run"
    arguments = (
        *QUICK,
        *ON_VLLM,
        *("--set", "inference.engine_process=own", "--set", "policy.use_peft=true", "--set", "policy.lora_r=8"),
        *("--set", "learner.updates=8", "--set", "learner.checkpoint_every=100"),
    )
    with TrainingProcess(run, *arguments) as training:
        training.wait_until(lambda: last_update(run) >= 3, "three updates")
        (actor,) = [p for p in training.family.values() if p.is_running() and "RolloutActor" in " ".join(p.cmdline())]
        engines = actor.children(recursive=True)
        assert engines, "vLLM was to have a process of its own"
        actor.kill()
        _, alive = psutil.wait_procs(engines, timeout=120)
        assert not alive, f"the engine outlived its actor: {alive}"
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    assert last_update(run) == 8
    assert audits(run)[1]["metrics"]["fresh_logprob_gap"] < 1e-4
    assert set(episodes_used(run).values()) == {1}
