"""``entente population rate``: real matches between bots, snapshots and the newest checkpoint of a run."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import dump_config, load_config
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import policy_payload, save_model
from opponents.population.population import Population
from opponents.ratings.storage import load_ratings
from services.environments.diplomacy.position import POWERS
from tests.system.support.training_process import ENTENTE, handle_stop_signals
from tests.unit.opponents.population_cases import train_a_little

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


def make_run(run: Path) -> Path:
    """Checkpoints 0 and 4 and a snapshot of version 2 of a policy that can play, and a bot."""
    config = load_config("smoke", ["game.until_year=1901"])
    run.mkdir()
    (run / "config.toml").write_text(dump_config(config))
    model, tokenizer = make_policy(config.policy, config.run.seed, config.world.language)
    population = Population(run / "population.json")
    population.add_bot("greedy")
    for version in (0, 2, 4):
        train_a_little(model, version)
        if version == 2:
            weights = run / "population" / "v2.safetensors"
            weights.parent.mkdir()
            weights.write_bytes(policy_payload(model))
            population.add_snapshot(weights, version=2)
        else:
            learner = Learner(model, config.learner, config.grouping, seed=0)
            learner.version = version
            save_checkpoint(run, learner, lambda folder: save_model(model, tokenizer, folder), {})
    population.save()
    return run


def rate(run: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*ENTENTE, "population", "rate", str(run), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_rating_matches_rate_bots_snapshots_and_learner_and_continue_in_a_second_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    done = rate(run, "--games", "2", "--against", "random", "--json", str(tmp_path / "rated.json"))
    assert done.returncode == 0, done.stderr
    rated = {row["id"]: row for row in json.loads((tmp_path / "rated.json").read_text())["players"]}
    assert set(rated) == {"bot/random", "bot/greedy", "policy/v2", "learner"}
    for player, row in rated.items():
        assert player in done.stdout
        assert [row["by_country"][power]["games"] for power in POWERS] == [2] * 7
        assert row["anchor"] == player.startswith("bot/")
        assert row["sigma"] == 0 if row["anchor"] else 0 < row["sigma"] < 350
    assert rate(run, "--games", "1", "--against", "").returncode == 0
    again = load_ratings(run / "ratings.json", POWERS)
    assert again.rating("policy/v2", "ITALY").games == 3
    assert again.rating("bot/random", "ITALY").games == 2
    assert again.rating("learner").sigma < rated["learner"]["sigma"]


def test_an_interruption_keeps_the_ratings_so_far(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(dump_config(load_config("smoke")))
    population = Population(run / "population.json")
    population.add_bot("greedy")
    population.save()
    command = [*ENTENTE, "population", "rate", str(run), "--games", "500", "--against", "random"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=handle_stop_signals
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()  # the first tenth would take long
        assert "100 of 1,000" in line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait(timeout=300)
    assert process.returncode == 130
    assert "what was played is kept" in err
    assert "bot/greedy" in out
    assert 100 <= load_ratings(run / "ratings.json", POWERS).rating("bot/greedy").games < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--against", "nobody"], "'nobody' is neither a bot"), (["--against", ""], "rating needs at least two players")],
)
def test_rating_errors_are_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(dump_config(load_config("smoke")))
    population = Population(run / "population.json")
    population.add_bot("greedy")
    population.save()
    done = rate(run, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (run / "ratings.json").exists()
