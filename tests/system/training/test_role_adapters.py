"""A run with a specialist for each country: training, snapshots, opponents, resume, evaluation and play."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from cluster.runs.folder import audits, episodes_used
from grpo_core.models.lora import folder_payload, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import ADAPTER, load_model, saved_specialists
from opponents.population.population import Population
from opponents.ratings.storage import load_ratings
from services.environments.diplomacy.position import POWERS
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SETTINGS = (
    "policy.use_peft=true", "policy.specialists=true", "policy.lora_r=2", "learner.learning_rate=0.01",
    "learner.checkpoint_every=1", "rollout.max_staleness=0", "opponents.snapshot_every=1",
    "opponents.members={random=1e-9}",  # almost never drawn once there is a snapshot
    "evaluation.against=[]", "evaluation.final_against=['random']",
)  # fmt: skip


def command(*arguments: str) -> str:
    done = subprocess.run([*ENTENTE, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_of_specialists_trains_resumes_evaluates_and_rates(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with TrainingProcess(run, *QUICK, *arguments, "--set", "learner.updates=2") as training:
        assert training.finish() == 0, training.output()
    with TrainingProcess(run, "--resume", "--set", "learner.updates=3", config=None) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    # Law 5: the adapter that wrote a country's games is the one that the learner computes them with.
    assert all(record["metrics"]["fresh_logprob_gap"] < 1e-4 for record in audits(run).values())
    assert set(episodes_used(run).values()) == {1}
    lines = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_weight_bytes" in line.metrics]
    assert len(lines) == 3
    # The checkpoint has one unchanged base and seven different adapters.
    newest, first = (run / "checkpoints" / version for version in "30")
    assert saved_specialists(newest) == tuple(sorted(POWERS))
    base, began = (named_tensors(load_model(folder, shared_base=True)[0]) for folder in (newest, first))
    assert all(torch.equal(value, began[name]) for name, value in base.items())
    population = Population.load(run / "population.json")
    frozen = {member.id: member for member in population.members if member.kind == "policy"}
    assert frozen.keys() == {f"policy/v{version}-{power}" for version in (1, 2, 3) for power in POWERS}
    taught = {
        part
        for record in audits(run).values()
        for group in record["groups"]
        if not group["zero_variance"]
        for part in group["key"]
    } & set(POWERS)
    assert len(taught) > 2, "so few games, but some countries' games differed"
    for power in POWERS:
        member = frozen[f"policy/v3-{power}"]
        assert (member.country, member.form, member.parent) == (power, "adapter", f"policy/v2-{power}")
        sent, kept = (
            merged(base, payload)
            for payload in (population.weights_path(member).read_bytes(), folder_payload(newest / ADAPTER / power))
        )
        assert all(torch.equal(value, kept[name]) for name, value in sent.items())
        moved = any(not torch.equal(value, base[name]) for name, value in sent.items())
        assert moved == (power in taught), "each learns from its own country's games alone"
    assert len({frozen[f"policy/v3-{power}"].checksum for power in taught}) == len(taught)
    # Snapshots play only their own country, after the resume too.
    met = [json.loads(line) for line in (run / "lineups.jsonl").read_text().splitlines()]
    seats = [(power, who) for lineup in met for power, who in lineup["members"].items() if who != "bot/random"]
    assert seats
    assert all(who.endswith(f"-{power}") for power, who in seats)
    # Each country's row is that of its specialist.
    out = tmp_path / "rows.json"
    command("evaluate", str(run), "--against", "random", "--games-per-country", "1", "--until", "1901",
            "--json", str(out))  # fmt: skip
    (row,) = json.loads(out.read_text())["evaluations"]
    assert row["by_country"].keys() == set(POWERS)
    game = tmp_path / "game.json"
    command("play", "--seat", f"FRANCE={run}", "--default", "random", "--until", "1901", "--out", str(game))
    assert json.loads(game.read_text())["phases"]
    # Matches rate the newest checkpoint at every country, and each snapshot at its own.
    command("population", "rate", str(run), "--games", "1", "--against", "", "--until", "1901")
    rated = load_ratings(run / "ratings.json", POWERS)
    assert rated.rating("learner", "ITALY").games > 0
    assert rated.rating("policy/v3-ITALY").games > 0
    assert "this run has a specialist for each" in " ".join(command("groups", "audit", str(run), "--gradients").split())
    done = subprocess.run([*ENTENTE, "groups", "study", str(run)], cwd=tmp_path, capture_output=True, text=True,
                          timeout=600)  # fmt: skip
    assert done.returncode == 2
    assert "holds specialists" in done.stderr.splitlines()[-1]
