"""A run whose learner is promoted by its rating, into a population of one snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opponents.population.population import Population
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SETTINGS = (
    "opponents.members={hold=1.0}",  # any policy takes neutral centres and finishes above a bot that never moves
    "opponents.promote_margin=1", "opponents.promote_sigmas=0.5", "opponents.promote_min_updates=1",
    "opponents.snapshot_every=2", "opponents.max_members=1", "rollout.max_staleness=0", "learner.updates=4",
    "evaluation.against=[]", "evaluation.final_against=[]",
)  # fmt: skip


def test_a_promoted_learner_joins_off_schedule_and_older_snapshots_retire(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with TrainingProcess(run, *QUICK, *arguments) as training:
        assert training.finish() == 0, training.output()
    population = Population.load(run / "population.json")
    snapshots = [member for member in population.members if member.kind == "policy"]
    assert {"policy/v1", "policy/v2", "policy/v4"} <= {member.id for member in snapshots}
    assert [member.id for member in snapshots if not member.retired] == ["policy/v4"]
    assert all(population.weights_path(member).exists() for member in snapshots), "what retires stays on disk"
    promotions = json.loads((run / "promotions.json").read_text())["promotions"]
    assert {each["version"] for each in promotions} == {member.version for member in snapshots} - {2, 4}
    first = promotions[0]
    assert (first["version"], first["lead"]["rival"]) == (1, "bot/random")
    assert first["lead"]["rating"] - 0.5 * first["lead"]["sigma"] > first["lead"]["rival_rating"] + 1
    output = " ".join(training.output().split())
    assert "v1 joins the population: rating" in output
    assert "v2 joins the population: a snapshot every 2 updates" in output
    assert "policy/v1 retires" in output
    last = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics][-1]
    assert last["entente_promotions_total"] == len(promotions)
    assert last["entente_population_size{state=active}"] == 2  # with the bot
    assert last["entente_population_size{state=retired}"] == len(snapshots) - 1
