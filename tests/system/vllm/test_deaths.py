"""vLLM's own process dies during training: its actor is replaced, and every episode counts once."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import episodes_used, last_update
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

EPISODES = 14  # of one update of smoke.toml
UPDATES = 6


def engine_of(training: TrainingProcess) -> psutil.Process:
    """The engine's process, a child of the only rollout actor."""
    (actor,) = [p for p in training.family.values() if p.is_running() and "RolloutActor" in " ".join(p.cmdline())]
    (engine,) = [child for child in actor.children(recursive=True) if "EngineCore" in " ".join(child.cmdline())]
    return engine


def check_training_after(fault: str, run: Path) -> None:
    """Do to the engine's process what ``fault`` says, and wait for a run that has used every episode once."""
    arguments = (
        *QUICK,
        *("--set", "inference.engine=vllm", "--set", "inference.kv_cache_mib=128"),
        *("--set", "inference.engine_process=own", "--set", f"learner.updates={UPDATES}"),
        *("--set", "learner.checkpoint_every=100", "--set", "evaluation.final_against=[]"),
        # A process that is only stopped answers neither a swap nor a block.
        *("--set", "rollout.swap_timeout_s=40", "--set", "rollout.block_timeout_s=90"),
    )
    with TrainingProcess(run, *arguments) as training:
        training.wait_until(lambda: last_update(run) >= 2, "two updates")
        getattr(engine_of(training), fault)()
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
        assert "it is replaced" in training.output()
    used = episodes_used(run)
    assert sum(used.values()) == UPDATES * EPISODES
    assert set(used.values()) == {1}
    last = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics][-1]
    assert last["entente_worker_restarts_total"] == 1


def test_training_continues_after_the_engines_process_died(tmp_path: Path) -> None:
    check_training_after("kill", tmp_path / "run")
