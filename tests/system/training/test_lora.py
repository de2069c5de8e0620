"""A run that trains LoRA adapters: published weights, snapshots, opponents, resume and evaluation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from cluster.configs.loader import load_config
from cluster.runs.folder import audits
from grpo_core.models.lora import adapter_config_of, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.population.population import Population
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SETTINGS = (
    "policy.use_peft=true", "policy.lora_r=2", "learner.learning_rate=0.01", "learner.checkpoint_every=1",
    "rollout.max_staleness=0", "opponents.snapshot_every=1",
    "opponents.members={random=1e-9}",  # almost never drawn once there is a snapshot
    "evaluation.against=[]", "evaluation.final_against=[]",
)  # fmt: skip


def opponents_of(run: Path, version: int) -> set[str]:
    """The opponents in the episodes that made a version."""
    config = load_config(run / "config.toml")
    population = Population.load(run / "population.json")
    matchmaker = Matchmaker(population, config.world, config.rollout.num_generations, config.run.seed, config.opponents)
    blocks = {int(name.split("/")[0].removeprefix("b")) for name in audits(run)[version]["episodes"]}
    lineups = [matchmaker.block(index, newest_snapshot=version - 1) for index in blocks]
    return {member for lineup in lineups for _, member in lineup.opponents}


def test_an_adapter_run_publishes_freezes_plays_against_resumes_and_evaluates_adapters(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with TrainingProcess(run, *QUICK, *arguments, "--set", "learner.updates=2") as training:
        assert training.finish() == 0, training.output()
    with TrainingProcess(run, "--resume", "--set", "learner.updates=3", config=None) as training:
        assert training.finish() == 0, training.output()
    # Opponents are frozen adapters; after the resume both of them, from the run's folder.
    assert opponents_of(run, 1) == {"bot/random"}
    assert opponents_of(run, 2) == {"policy/v1"}
    assert opponents_of(run, 3) == {"policy/v1", "policy/v2"}
    # Law 5 across every update and the resume: the engine's merged adapter is what the learner computes with.
    assert all(record["metrics"]["fresh_logprob_gap"] < 1e-4 for record in audits(run).values())
    base, _ = load_model(run / "checkpoints" / "0")
    full_bytes = (run / "checkpoints" / "0" / "model.safetensors").stat().st_size
    sizes = [line.metrics["entente_weight_bytes"] for line in read_metrics(run / "metrics.jsonl")
             if "entente_weight_bytes" in line.metrics]  # fmt: skip
    assert len(sizes) == 3
    assert max(sizes) < 0.2 * full_bytes
    for version in (1, 2, 3):
        snapshot = (run / "population" / f"v{version}.safetensors").read_bytes()
        assert json.loads(adapter_config_of(snapshot) or "null")["r"] == 2
        assert len(snapshot) == sizes[version - 1]
        if (checkpoint := run / "checkpoints" / str(version)).exists():
            full = merged(named_tensors(base), snapshot)
            assert all(
                torch.equal(value, full[name]) for name, value in named_tensors(load_model(checkpoint)[0]).items()
            )
    command(["evaluate", str(run), "--against", "random", "--games-per-country", "1", "--until", "1901"])
    game = tmp_path / "game.json"
    command(["play", "--seat", f"FRANCE={run}", "--default", "random", "--until", "1901", "--out", str(game)])
    assert json.loads(game.read_text())["phases"]


def command(arguments: list[str]) -> None:
    done = subprocess.run([*ENTENTE, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
