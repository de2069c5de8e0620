"""A run's own decoding, completion length and temperature apply wherever its policy plays."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import entente
from cluster.actors.initial_policy import make_policy
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.evaluation.evaluate import diplomacy_request, evaluate, specs_of
from cluster.evaluation.figures.comparison import MIXED, compare_players
from cluster.evaluation.play import play
from cluster.evaluation.players.opening import newest, open_policy, parse_seats
from cluster.evaluation.players.weights import NO_WEIGHTS, version_of, weights_of
from cluster.evaluation.ratings.players import RatingPlayers
from cluster.evaluation.records.game_origins import describe_player
from cluster.evaluation.tables.places import Place, this_process
from cluster.evaluation.tables.table import PlayerSpec
from cluster.runs.folder import EXPORTED
from cluster.runs.provenance import commit
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import load_model, save_model, weights_payload
from opponents.players.chat_players import ChatPlayers
from opponents.population.member import release_checksum
from opponents.population.population import Population
from opponents.settings import ChatPlayerSettings
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from services.environments.environment import World
from services.environments.evaluation import EvaluationGame
from services.environments.seat_player import SeatPlayer
from services.inference.chat_endpoint.settings import EndpointError
from services.inference.engine import EngineError, GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from services.weights.payload import make_payload

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
ONE_GAME = diplomacy_request(1, Ending(1901))
TRAINING: Settings = ("free", 40, 0.5)
EVALUATION: Settings = ("free", 40, 0.25)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an older version, with a checkpoint, an imitated policy and an empty population."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.toml").write_text(dump_config(CONFIG).replace("curriculum_up", "key_of_another_version"))
    (folder / "run_id").write_text("run-0f\n")
    model, tokenizer = make_policy(CONFIG.policy, CONFIG.run.seed, CONFIG.world.language)
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
        play(
            parse_seats([f"FRANCE={run / folder}"], "random"), Ending(1901), 0, tmp_path / "game.json", ChatPlayers({})
        )
    assert set(asked) == {TRAINING}


@pytest.mark.parametrize("folder", ["", "checkpoints/0", "imitated/untrained"])
def test_evaluate_uses_the_sampling_of_evaluation_games(run: Path, folder: str, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate(ONE_GAME, [str(run / folder)], ["random"])
    assert set(asked) == {EVALUATION}


def test_evaluate_can_override_the_temperature(run: Path, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate(replace(ONE_GAME, temperature=0.0), [str(run)], ["random"])
    assert set(asked) == {("free", 40, 0.0)}


def test_evaluate_plays_an_opponent_with_its_own_settings(run: Path, asked: list[Settings]) -> None:
    with pytest.raises(EngineError):
        evaluate(replace(ONE_GAME, temperature=0.0), ["random"], [str(run)])
    assert set(asked) == {EVALUATION}


def test_rating_matches_use_the_sampling_of_training_games(run: Path, asked: list[Settings]) -> None:
    async def act() -> None:
        players = RatingPlayers(CONFIG, run, Population.load(run / "population.json"))
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
            await worker.play_evaluation([EvaluationGame("FRANCE", "random", 0, "", 0)], 0)
        await worker.close()

    asyncio.run(act())
    assert asked == [TRAINING, EVALUATION]


def test_a_played_game_says_who_played(run: Path, tmp_path: Path) -> None:
    config = "inference.decoding=constrained"
    folder = tmp_path / "mine"
    shutil.copytree(run, folder)
    (folder / "config.toml").write_text(dump_config(load_config("smoke", [config, "inference.temperature=0.5"])))
    seats = parse_seats([f"FRANCE={folder}", "ITALY=dumbbot"], "random")
    play(seats, Ending(1901), 5, tmp_path / "game.json", ChatPlayers({}))
    record = json.loads((tmp_path / "game.json").read_text())[ORIGIN_KEY]
    assert str(tmp_path) not in json.dumps(record), "a shared game names no path of the machine"
    manifest = json.loads((folder / "checkpoints" / "0" / "manifest.json").read_text())
    assert record["seats"]["FRANCE"] == {
        "player": "mine/checkpoints/0", "kind": "checkpoint", "version": 0,
        "checksum": manifest["files"]["model.safetensors"]["sha256"], "decoding": "constrained", "temperature": 0.5,
    }  # fmt: skip
    assert record["seats"]["ITALY"]["checksum"] == release_checksum("dumbbot")
    assert {seat["player"] for seat in record["seats"].values()} == {"mine/checkpoints/0", "dumbbot", "random"}
    assert (record["seed"], record["until_year"], record["commit"]) == (5, 1901, commit())


def test_a_player_outside_a_run_is_described_by_its_folder_and_weights(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run / "imitated" / "untrained", tmp_path / "policy"))
    found = describe_player(str(folder), ChatPlayers({}))
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert found == SeatPlayer("policy", "checkpoint", None, weights, "constrained", 1.0)


def test_a_game_names_the_checkpoint_that_was_opened_though_a_newer_one_appears(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "mine"))
    (folder / "config.toml").write_text(dump_config(load_config("smoke")))

    def open_then_write(*given: Any, **named: Any) -> Any:
        opened = open_policy(*given, **named)
        newer = folder / "checkpoints" / "1"
        if not newer.exists():
            shutil.copytree(folder / "checkpoints" / "0", newer)
        return opened

    monkeypatch.setattr("cluster.evaluation.play.open_policy", open_then_write)
    monkeypatch.setattr("cluster.evaluation.players.opening.open_policy", open_then_write)
    play(parse_seats([f"FRANCE={folder}"], "random"), Ending(1901), 5, tmp_path / "game.json", ChatPlayers({}))
    assert (folder / "checkpoints" / "1").exists()
    record = json.loads((tmp_path / "game.json").read_text())[ORIGIN_KEY]
    assert record["seats"]["FRANCE"]["player"] == "mine/checkpoints/0"
    shutil.rmtree(folder / "checkpoints" / "1")
    with entente.open_player(folder) as player:
        assert player.description.player == "mine/checkpoints/0"
        assert player.name == str(folder)


@pytest.mark.parametrize("country", [None, "FRANCE"])
def test_an_exported_policy_is_described_by_its_run_and_version(run: Path, tmp_path: Path, country: str | None) -> None:
    folder = Path(shutil.copytree(run / "imitated" / "untrained", tmp_path / "policy"))
    made = {"version": 90, "country": country, "config": json.loads(load_config("smoke").model_dump_json())}
    (folder / EXPORTED).write_text(json.dumps(made))
    found = describe_player(str(folder), ChatPlayers({}))
    assert (found.player, found.version) == ("smoke/checkpoints/90" + ("/FRANCE" if country else ""), 90)
    for damage in ({"version": "90"}, {"country": "NARNIA"}, {"config": {}}):
        (folder / EXPORTED).write_text(json.dumps(made | damage))
        found = describe_player(str(folder), ChatPlayers({}))
        assert (found.player, found.version) == ("policy", None)


def test_a_remote_player_is_described_by_the_checksum_of_its_settings() -> None:
    settings = ChatPlayerSettings(base_url="http://127.0.0.1:1/v1", model="m")
    remotes = ChatPlayers({"gpt": settings})
    found = describe_player("remote:gpt", remotes)
    assert found == SeatPlayer("remote:gpt", "remote", checksum=release_checksum(settings.identity))
    with pytest.raises(EndpointError):
        describe_player("remote:other", remotes)


def test_a_runs_evaluation_game_names_the_weights_that_it_published(run: Path, tmp_path: Path) -> None:
    config = load_config("smoke", ["run.name=demo", "evaluation.temperature=0.25"])
    payload = make_payload(3, weights_payload(load_model(run / "checkpoints" / "0")[0]))
    spec = EvaluationGame("ITALY", "random", 0, "", 0, save_to=str(tmp_path / "ITALY.json"), commit="af03")

    async def act() -> None:
        worker = RolloutWorker(config, str(run / "checkpoints" / "0"), str(run / "population.json"), None)
        await worker.swap(payload)
        await worker.play_evaluation([spec], 3)
        await worker.close()

    asyncio.run(act())
    record = json.loads((tmp_path / "ITALY.json").read_text())[ORIGIN_KEY]
    assert record["seats"]["ITALY"] == {
        "player": "demo/checkpoints/3", "kind": "learner", "version": 3, "checksum": payload.checksum,
        "decoding": "constrained", "temperature": 0.25,
    }  # fmt: skip
    assert {seat["player"] for power, seat in record["seats"].items() if power != "ITALY"} == {"random"}
    assert record["commit"] == "af03"


def test_a_policy_outside_a_run_gets_the_default_settings(run: Path, asked: list[Settings], tmp_path: Path) -> None:
    (run / "imitated" / "untrained").rename(tmp_path / "policy")
    try:
        policy = open_policy(str(tmp_path / "policy"), ChatPlayers({}))
        with pytest.raises(EngineError):
            asyncio.run(policy.act(DiplomacyGame(1901).position, "FRANCE", 0))
    finally:
        (tmp_path / "policy").rename(run / "imitated" / "untrained")
    assert asked == [("constrained", 224, 1.0)]


def test_a_run_is_evaluated_at_its_checkpoint_of_the_beginning(run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    [spec, anchor] = specs_of(ONE_GAME, [str(copied)], ["random"])
    (copied / "checkpoints" / "0").rename(copied / "checkpoints" / "7")  # as if training had gone on
    assert spec.player == str(copied / "checkpoints" / "0")
    assert version_of(spec.player) == 0
    assert version_of(specs_of(ONE_GAME, [str(copied)], [])[0].player) == 7
    assert anchor.player == "random"
    assert version_of("random") is None


def test_a_bots_name_is_the_bots_whatever_folders_there_are(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "greedy")
    monkeypatch.chdir(tmp_path)
    assert newest("greedy") == "greedy"
    assert weights_of("greedy") == NO_WEIGHTS
    assert newest("./greedy").startswith("greedy/checkpoints/")


def test_rows_say_which_checkpoints_played(run: Path) -> None:
    def of_holding_players(world: World, specs: Sequence[PlayerSpec]) -> AbstractContextManager[Place]:
        return this_process(world, [PlayerSpec("hold")] * len(specs))

    players = [str(run), "random"]
    found = compare_players(ONE_GAME, players, [str(run), "random"], mixed=True, open_place=of_holding_players)
    assert [(row["version"], row["against"], row["against_version"]) for row in found.rows] == [
        (0, str(run), 0), (None, str(run), 0), (0, "random", None), (None, "random", None),
        (0, MIXED, None), (None, MIXED, None),
    ]  # fmt: skip


def test_a_checkpoint_that_its_run_has_removed_is_said_to_be_gone(run: Path) -> None:
    with pytest.raises(RunError, match=r"checkpoints/40' is not there any more: a run in training keeps its newest"):
        open_policy(str(run / "checkpoints" / "40"), ChatPlayers({}))
