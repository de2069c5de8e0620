"""Whole runs in other worlds than Diplomacy: they learn, evaluate, recover and report like it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.runs.folder import audits
from grpo_core.models.lora import folder_payload
from grpo_core.models.pretrained import ADAPTER, saved_specialists
from opponents.population.population import Population
from tests.system.support.training_process import ENTENTE

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

PROBLEMS = """
[task]
name = "word_problems"
[game]
curriculum = true
follow_ups = 1
[policy]
hidden_size = 64
layers = 2
intermediate_size = 128
context_length = 256
[inference]
max_completion_length = 64
[imitation]
games = 60
epochs = 2
control = "same"
[learner]
episodes_per_update = 64
updates = 3
[evaluation]
problems = 8
samples = 8
"""


def entente(*words: str) -> str:
    done = subprocess.run([*ENTENTE, *words], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def evaluations(run: Path) -> dict[str, dict[str, Any]]:
    return {row["label"]: row for row in json.loads((run / "summary.json").read_text())["evaluations"]}


def test_a_policy_learns_kuhn_poker_from_nothing(tmp_path: Path) -> None:
    run = tmp_path / "kuhn"
    entente("train", "kuhn", "--run-dir", str(run), "--set", "metrics.display=false")
    rows = evaluations(run)
    assert rows["trained"]["chips_ci95"][0] > rows["untrained"]["chips_ci95"][1]
    assert set(rows["trained"]["by_seat"]) == {"FIRST", "SECOND", "THIRD"}
    page = (run / "report.html").read_text()
    assert "Before and after, by seat" in page
    assert "centres" not in page.partition("<script")[0]
    assert "bot/random" in entente("population", "list", str(run))
    assert "seat+card" in entente("groups", "audit", str(run))


def test_word_problems_are_imitated_trained_and_compared_with_a_control(tmp_path: Path) -> None:
    run, config = tmp_path / "run", tmp_path / "problems.toml"
    config.write_text(PROBLEMS)
    entente("train", str(config), "--run-dir", str(run), "--set", "metrics.display=false")
    rows = evaluations(run)
    assert list(rows) == ["untrained", "imitated", "trained", "control"]
    for row in rows.values():
        low, high = row["exact_match_ci95"]
        assert 0 <= low <= row["exact_match"] <= high <= 1
        assert 0 <= row["maj_at_8"] <= row["pass_at_8"] <= 1
    assert json.loads((run / "starts.json").read_text())["state"]  # the curriculum's counts
    saved = json.loads(next((run / "games").glob("trained-held_out/*.json")).read_text())
    assert saved["questions"][0]["question"]
    assert "control: imitation alone" in (run / "report.html").read_text()


def test_seats_of_another_world_have_specialists_who_meet_each_other(tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = (
        "policy.use_peft=true", "policy.specialists=true", "policy.lora_r=2", "learner.episodes_per_update=96",
        "learner.updates=3", "opponents.snapshot_every=1", "opponents.members={random=1e-9}", "rollout.max_staleness=0",
        "evaluation.games_per_role=20", "learner.learning_rate=0.01", "metrics.display=false",
    )  # fmt: skip
    entente("train", "kuhn", "--run-dir", str(run), *(part for each in settings for part in ("--set", each)))
    seats = {"FIRST", "SECOND", "THIRD"}
    assert set(saved_specialists(run / "checkpoints" / "3")) == seats
    frozen = {member.id for member in Population.load(run / "population.json").members if member.kind == "policy"}
    assert frozen == {f"policy/v{version}-{seat}" for version in (1, 2, 3) for seat in seats}
    met = [json.loads(line)["members"] for line in (run / "lineups.jsonl").read_text().splitlines()]
    policies = [(seat, who) for members in met for seat, who in members.items() if who.startswith("policy/")]
    assert policies
    assert all(who.endswith(f"-{seat}") for seat, who in policies)
    assert len(audits(run)) == 3
    # Law 5: the adapter that played a seat is the one that the learner computes its episodes with.
    assert all(record["metrics"]["fresh_logprob_gap"] < 1e-4 for record in audits(run).values())
    assert set(evaluations(run)["trained"]["by_seat"]) == seats


def test_instruction_variants_have_specialists_that_solve_together(tmp_path: Path) -> None:
    run, config, found = tmp_path / "run", tmp_path / "problems.toml", tmp_path / "found.json"
    peft = "[policy]\nuse_peft = true\nspecialists = true\nlora_r = 2\n"
    paid = "[game]\nreward = { unique_characters = 1.0 }\n"  # what an untaught policy already differs in
    config.write_text(PROBLEMS.replace("[policy]\n", peft).replace("[game]\n", paid).replace('control = "same"\n', ""))
    entente("train", str(config), "--run-dir", str(run), "--set", "metrics.display=false", "--set",
            "rollout.max_staleness=0", "--set", "learner.learning_rate=0.01")  # fmt: skip
    checkpoint = run / "checkpoints" / "3"
    adapters = [folder_payload(checkpoint / ADAPTER / variant) for variant in saved_specialists(checkpoint)]
    assert len(set(adapters)) == 4, "each learned from its own answers"
    assert len(audits(run)) == 3
    assert all(record["metrics"]["fresh_logprob_gap"] < 1e-4 for record in audits(run).values())
    question = "Sam has 15 pens and buys 9 more. How many pens does Sam have?"
    entente("solve", str(run), "--question", question, "--agents", "average", "--samples", "2", "--json", str(found))
    assert len(json.loads(found.read_text())["agents"]) == 4
