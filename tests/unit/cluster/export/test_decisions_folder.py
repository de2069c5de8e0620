"""A run's games and decisions as parquet, read by ``datasets`` and compared with the run's own files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, load_dataset

from cluster.actors.audit_batch import last_batch_path, load_last_batch
from cluster.cli.export import export
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.export import tables
from cluster.export.decisions_folder import export_decisions
from cluster.export.saved_games import DECISIONS, GAMES, SavedGame, centers_by_year, game_row
from cluster.export.tables import METADATA
from cluster.export.training_decisions import COLUMNS
from cluster.runs.folder import RunFolder, audits
from grpo_core.models.pretrained import load_tokenizer
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.diplomacy.text.notation import render
from tests.fuzz.run_folder import copy_to

TOLD = "games/trained-random/FRANCE.json"
OLDER = "games/untrained-random/FRANCE.json"  # of a version that did not write who played
UNKNOWN = "games/game.json"


def no_bar(name: str, steps: int) -> Callable[[int], None]:
    return lambda done: None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the real parts, whose game says who played, and that game again without it."""
    folder = copy_to(tmp_path_factory.mktemp("decisions"))
    document = json.loads((folder / TOLD).read_text())
    del document["entente"]
    (folder / OLDER).parent.mkdir()
    for name in (OLDER, UNKNOWN):
        (folder / name).write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="module")
def out(run: Path) -> Path:
    export(run, out=run / "out", decisions=True, license_name="cc-by-4.0")
    return run / "out"


def rows(out: Path, name: str) -> Dataset:
    return load_dataset(str(out), name, split="train", cache_dir=str(out.parent / "cache"))


def told(out: Path, name: str) -> dict[str, Any]:
    schema = pq.read_schema(out / f"{name}.parquet")
    return dict(json.loads(schema.metadata[METADATA]))


def test_every_column_is_documented_or_left_out_with_a_reason(out: Path) -> None:
    for name, columns in (("games", GAMES), ("decisions", DECISIONS), ("training_decisions", COLUMNS)):
        schema, about = pq.read_schema(out / f"{name}.parquet"), told(out, name)
        assert set(schema.names) == set(about["columns"])
        assert not set(schema.names) & set(about["left_out"])
        assert {column.name for column in columns} <= {*about["columns"], *about["left_out"]}
        assert all(schema.field(each).metadata[b"description"].decode() for each in schema.names)
        assert (about["run"], about["commit"], about["seed"]) == ("fuzz", "0f", 0)
        assert rows(out, name).column_names == schema.names
    assert {"reward", "return", "advantage"} <= told(out, "decisions")["left_out"].keys()
    assert "license: cc-by-4.0" in (out / "README.md").read_text()


def test_games_have_their_seats_outcome_and_centres_by_year(run: Path, out: Path) -> None:
    games = {game["file"]: game for game in rows(out, "games")}
    assert games.keys() == {TOLD, OLDER, UNKNOWN}
    ended = DiplomacyGame.load(run / TOLD, 1902)
    for game in games.values():
        assert game["centers"] == ended.outcome().centers
        assert (game["outcome"], game["winners"], game["final_year"]) == ("unfinished", [], 1902)
        assert [each["year"] for each in game["centers_by_year"]] == [1900, 1901, 1902]
        assert {power: game["centers_by_year"][-1][power] for power in POWERS} == ended.outcome().centers
        assert [game["centers_by_year"][0][power] for power in POWERS] == [3, 3, 3, 3, 3, 4, 3]
    assert games[TOLD]["seats"] == {**dict.fromkeys(POWERS, "random"), "FRANCE": "fuzz/checkpoints/2"}
    assert games[OLDER]["seats"] == {**dict.fromkeys(POWERS, "random"), "FRANCE": "untrained (untrained)"}
    assert json.loads(games[TOLD]["entente"])["until_year"] == 1902
    assert games[UNKNOWN]["seats"] in (None, dict.fromkeys(POWERS))


def test_decisions_are_those_of_the_saved_game(run: Path, out: Path) -> None:
    found = [row for row in rows(out, "decisions") if row["file"] == TOLD]
    phases = json.loads((run / TOLD).read_text())["phases"]
    index = 0
    for phase in phases[:-1]:
        position = DiplomacyGame.from_state(phase["state"], 1999).position
        for power in position.to_move:
            row = found[index]
            index += 1
            assert (row["phase"], row["power"]) == (phase["name"], power)
            assert row["prompt"] == render(position, power)
            assert row["orders"] == ((phase.get("orders") or {}).get(power) or [])
            assert row["player"] == ("fuzz/checkpoints/2" if power == "FRANCE" else "random")
            assert row["legal_orders"] == len({each for place in position.orderable[power]
                                               for each in position.legal[place]})  # fmt: skip
            assert set(row["orders"]) <= {each for options in position.legal.values() for each in options} | {"WAIVE"}
            assert json.loads(row["position"])["centers"][power] == list(position.centers[power])
            assert row["centers"] == len(position.centers[power])
    assert index == len(found) > 20


def test_training_decisions_have_the_batchs_rewards_and_the_audits_advantages(run: Path, out: Path) -> None:
    found = list(rows(out, "training_decisions"))
    batch = load_last_batch(RunFolder(run))
    assert batch is not None
    turns = [(episode, turn) for episode in batch.episodes for turn in episode.turns]
    tokenizer = load_tokenizer(run / "checkpoints" / "2")
    assert len(found) == len(turns)
    for row, (episode, turn) in zip(found, turns, strict=True):
        assert (row["game_id"], row["power"], row["phase"]) == (episode.episode_id, episode.role, turn.phase)
        assert row["prompt"] == tokenizer.decode(turn.prompt_ids.tolist())
        assert row["reward"] == pytest.approx(turn.reward)
        assert row["logprob"] == pytest.approx(float(turn.logprobs.sum()))
        assert row["player"] == f"policy/v{turn.policy_version}"
    moments = audits(run)[batch.learner_version + 1]["advantages"]
    advantages = np.array([row["advantage"] for row in found])
    assert advantages.mean() == pytest.approx(moments["mean"], abs=1e-5)
    assert advantages.std() == pytest.approx(moments["std"], rel=1e-5)
    assert advantages.max() == pytest.approx(moments["max"], rel=1e-5)


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("grouping.scale_rewards=none", "differ from audit/000002.json"),
        ("grouping.group_weights=balanced", "depend on earlier batches"),
        ("inference.decoding=free", "decoding was free"),
    ],
)
def test_advantages_and_orders_that_are_not_known_are_left_out(tmp_path: Path, override: str, reason: str) -> None:
    run = copy_to(tmp_path)
    (run / "config.toml").write_text(dump_config(load_config(run / "config.toml", [override])))
    done = export_decisions(run, tmp_path / "out", no_bar)
    left_out = told(done.folder, "training_decisions")["left_out"]
    lacking = "orders" if "decoding" in override else "advantage"
    assert reason in left_out[lacking]
    assert lacking not in pq.read_schema(done.folder / "training_decisions.parquet").names


def test_a_run_without_batch_or_games_and_a_damaged_game_are_refused(tmp_path: Path) -> None:
    run = copy_to(tmp_path)
    game = run / TOLD
    last_batch_path(RunFolder(run)).unlink()
    assert export_decisions(run, tmp_path / "games-only", no_bar).rows == {"games": 1, "decisions": 33}
    game.write_text('{"phases": []}')
    with pytest.raises(SavedGameError, match=r"FRANCE\.json"):
        export_decisions(run, tmp_path / "out", no_bar)
    game.unlink()
    with pytest.raises(RunError, match="there is nothing to export"):
        export_decisions(run, tmp_path / "out", no_bar)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["games-only", "run"]


def test_without_pyarrow_the_command_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copy_to(tmp_path)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"pip install 'entente\[parquet\]'"):
        export(run, out=tmp_path / "out", decisions=True)


def test_centres_of_a_year_are_those_after_its_fall() -> None:
    def state(name: str, centers: int) -> dict[str, Any]:
        return {"name": name, "centers": {"FRANCE": ["PAR"] * centers}}

    states = [state("S1901M", 3), state("S1901R", 3), state("F1901M", 3), state("F1901R", 3), state("W1901A", 5),
              state("S1902M", 5), state("F1902M", 5), state("COMPLETED", 6)]  # fmt: skip
    found = {year: centers["FRANCE"] for year, centers in centers_by_year(states, 1902).items()}
    assert found == {1900: 3, 1901: 5, 1902: 6}


def test_a_solo_and_a_draw_are_told_by_the_engines_note() -> None:
    def outcome(note: str) -> tuple[str, list[str]]:
        phases = [
            {"name": "F1907M", "state": {"name": "F1907M"}, "orders": {"FRANCE": ["A PAR H"]}},
            {"name": "COMPLETED", "state": {"name": "COMPLETED", "note": note}},
        ]
        row = game_row(SavedGame("games/a.json", {"phases": phases}, {}))
        assert (row["final_year"], row["game_id"]) == (1907, "games/a.json")
        return row["outcome"], row["winners"]

    assert outcome("Victory by: FRA") == ("solo", ["FRANCE"])
    assert outcome("Victory by: TUR, ENG") == ("draw", ["ENGLAND", "TURKEY"])
    assert outcome("") == ("unfinished", [])
