"""A run's own decoding, completion length and temperature apply wherever its policy plays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cluster.actors.initial_policy import make_policy
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import dump_config, load_config
from cluster.evaluation.evaluation_games import EvaluationGame
from cluster.evaluation.play import evaluate, play
from cluster.evaluation.players import open_policy, parse_seats
from cluster.evaluation.rating_players import RatingPlayers
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import save_model
from opponents.players.chat_players import ChatPlayers
from opponents.population.population import Population
from services.environments.diplomacy.game import DiplomacyGame
from services.inference.engine import EngineError, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine

CONFIG = load_config(
    "smoke",
    [
        "inference.decoding=free",
        "inference.max_completion_length=40",
        "inference.temperature=0.5",
        "evaluation.temperature=0.25",
    ],
)
Settings = tuple[str, int, float]
TRAINING: Settings = ("free", 40, 0.5)
EVALUATION: Settings = ("free", 40, 0.25)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an older version, with a checkpoint, an imitated policy and an empty population."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.toml").write_text(dump_config(CONFIG).replace("curriculum_up", "key_of_another_version"))
    (folder / "run_id").write_text("run-0f\n")
    model, tokenizer = make_policy(CONFIG.policy, CONFIG.run.seed)
    learner = Learner(model, CONFIG.learner, CONFIG.grouping, seed=0)
    save_checkpoint(folder, learner, lambda path: save_model(model, tokenizer, path), {})
    save_model(model, tokenizer, folder / "imitated" / "untrained")
    Population(folder / "population.json").save()
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Sampling settings of the decisions that engines were asked for; every engine refuses to decide."""
    settings: list[Settings] = []

    async def refuse(_: TorchEngine, request: GenerationRequest) -> Any:
        decoding = "free" if request.constraint is None else "constrained"
        settings.append((decoding, request.max_completion_length, request.temperature))
        raise EngineError("seen")

    monkeypatch.setattr(TorchEngine, "generate", refuse)
    return settings


@pytest.mark.parametrize("folder", ["", "checkpoints/0", "imitated/untrained"])
def test_play_uses_the_sampling_of_training_games(
    run: Path, folder: str, asked: list[Settings], tmp_path: Path
) -> None:
    with pytest.raises(EngineError):
        play(parse_seats([f"FRANCE={run / folder}"], "random"), 1901, 0, tmp_path / "game.json", ChatPlayers({}))
    assert set(asked) == {TRAINING}


@pytest.mark.parametrize("folder", ["", "checkpoints/0", "imitated/untrained"])
def test_evaluate_uses_the_sampling_of_evaluation_games(run: Path, folder: str, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate(str(run / folder), ["random"], games_per_country=1, until_year=1901)
    assert set(asked) == {EVALUATION}


def test_evaluate_can_override_the_temperature(run: Path, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate(str(run), ["random"], games_per_country=1, until_year=1901, temperature=0.0)
    assert set(asked) == {("free", 40, 0.0)}


def test_evaluate_plays_an_opponent_with_its_own_settings(run: Path, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate("random", [str(run)], games_per_country=1, until_year=1901, temperature=0.0)
    assert set(asked) == {EVALUATION}


def test_rating_matches_use_the_sampling_of_training_games(run: Path, asked: list[Settings]) -> None:
    async def act() -> None:
        players = RatingPlayers(CONFIG.inference, {}, run, Population.load(run / "population.json"))
        try:
            await players.open(["learner"])
            await players.by_id["learner"].act(DiplomacyGame(1901).position, "FRANCE", 0)
        finally:
            await players.close()

    with pytest.raises(EngineError):
        asyncio.run(act())
    assert set(asked) == {TRAINING}


def test_rollout_actors_use_training_and_evaluation_sampling(run: Path, asked: list[Settings]) -> None:
    async def act() -> None:
        worker = RolloutWorker(CONFIG, str(run / "checkpoints" / "0"), str(run / "population.json"), None)
        worker._version = 0
        with pytest.raises(EngineError):
            await worker._trained.act(DiplomacyGame(1901).position, "FRANCE", 0)
        with pytest.raises(EngineError):
            await worker.play_evaluation([EvaluationGame("FRANCE", "random", 1901, 0)], 0)
        await worker.close()

    asyncio.run(act())
    assert asked == [TRAINING, EVALUATION]


def test_a_policy_outside_a_run_gets_the_default_settings(run: Path, asked: list[Settings], tmp_path: Path) -> None:
    (run / "imitated" / "untrained").rename(tmp_path / "policy")
    try:
        policy = open_policy(str(tmp_path / "policy"), ChatPlayers({}))
        with pytest.raises(EngineError):
            asyncio.run(policy.act(DiplomacyGame(1901).position, "FRANCE", 0))
    finally:
        (tmp_path / "policy").rename(run / "imitated" / "untrained")
    assert asked == [("constrained", 224, 1.0)]
