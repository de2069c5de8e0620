"""A real run with a tracker, exported: its policy for plain transformers, its games and decisions for datasets."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import torch
from datasets import load_dataset
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM, AutoTokenizer

from cluster.runs.folder import audits
from grpo_core.models.pretrained import load_model
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.notation import render
from services.inference.engine import GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

LONGEST = 40


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    settings = ("--set", "metrics.trackers=['tensorboard']", "--set", "learner.updates=2")
    with TrainingProcess(folder, *QUICK, *settings) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
        assert "tensorboard:" not in training.output()
    return folder


def command(*arguments: str) -> str:
    done = subprocess.run([*ENTENTE, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tracker_has_the_series_and_replays_of_the_run(run: Path) -> None:
    folder = run / "trackers" / "tensorboard"
    events = EventAccumulator(str(folder), {"scalars": 0, "tensors": 0}).Reload()
    recorded = [
        (line.update, pytest.approx(line.metrics["entente_loss"]))
        for line in read_metrics(run / "metrics.jsonl")
        if "entente_loss" in line.metrics
    ]
    assert [(each.step, each.value) for each in events.Scalars("entente_loss")] == recorded
    assert len(recorded) == 2
    for label in ("untrained", "trained"):
        kept = folder / "replays" / f"{label}-random"
        assert {path.stem for path in kept.iterdir()} == set(POWERS)


def test_transformers_write_greedily_what_the_runs_own_engine_writes(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "policy"
    assert "version 2 written to" in command("export", str(run), "--out", str(out))
    model = AutoModelForCausalLM.from_pretrained(out).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    own, _ = load_model(run / "checkpoints" / "2")
    engine = TorchEngine(own)
    for power in POWERS:
        prompt = tokenizer(render(DiplomacyGame(1901).position, power), return_tensors="pt").input_ids
        with torch.no_grad():
            written = model.generate(prompt, max_new_tokens=LONGEST, do_sample=False)[0, prompt.shape[1] :].tolist()
        request = GenerationRequest(
            prompt_ids=tuple(prompt[0].tolist()), constraint=None, seed=0, temperature=0.0,
            max_completion_length=LONGEST,
        )  # fmt: skip
        assert written == asyncio.run(engine.generate(request)).completion_ids.tolist()
    card = (out / "README.md").read_text()
    summary = json.loads((run / "summary.json").read_text())
    assert "| trained (2) | random | 7 | 1901 |" in card
    assert f"digest `{summary['config_digest']}`" in card
    game = tmp_path / "game.json"
    command("play", "--seat", f"FRANCE={out}", "--default", "random", "--until", "1901", "--out", str(game))
    assert json.loads(game.read_text())["phases"]


def test_datasets_reads_the_games_and_decisions_of_the_run(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    command("export", str(run), "--decisions", "--out", str(out))
    games, decisions, training = (
        load_dataset(str(out), name, split="train", cache_dir=str(tmp_path / "cache"))
        for name in ("games", "decisions", "training_decisions")
    )
    seats = {game["file"]: game["seats"] for game in games}
    assert len(seats) == 2 * len(POWERS)
    assert seats["games/trained-random/ITALY.json"]["ITALY"] == "smoke/checkpoints/2"
    assert seats["games/trained-random/ITALY.json"]["FRANCE"] == "random"
    assert {row["player"] for row in decisions if row["power"] == "ITALY"} == {
        "smoke/checkpoints/2", "smoke/checkpoints/0", "random",
    }  # fmt: skip
    record = audits(run)[2]
    assert {row["game_id"] for row in training} == set(record["episodes"])
    assert all(row["prompt"].startswith(f"{row['power']} ") for row in training)
    # The order notation of the small policy: every line is an order of a unit, a build or WAIVE.
    assert all(order.split()[0] in ("A", "F", "WAIVE") for row in training for order in row["orders"])
    known = [row["advantage"] for row in training if row["advantage"] is not None]
    assert known
    assert min(known) >= record["advantages"]["min"] - 1e-5
    assert max(known) <= record["advantages"]["max"] + 1e-5
