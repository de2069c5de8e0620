"""``entente population`` shows and changes members; its errors are one line."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from cluster.cli.app import main
from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from opponents.league.results import Results
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.ratings.storage import save_ratings
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents.population_cases import make_run
from tests.unit.opponents.world_cases import diplomacy_book, score


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "population").mkdir(parents=True)
    (folder / "config.toml").write_text(dump_config(Config()))
    population = Population(folder / "population.json")
    population.add_bot("random", weight=0.5)
    for version in (2, 4):
        path = folder / "population" / f"v{version}.safetensors"
        save_file({"w": np.full(2, version, np.float32)}, path)
        population.add_snapshot(path, version=version, config_digest="0f0f")
    population.advance_to(5)
    population.save()
    return folder


@pytest.fixture
def entente(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Calls the command line; returns the exit code, standard output and standard error."""

    def call(*arguments: str | Path) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["entente", "population", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return call


def member(run: Path, member_id: str) -> Member:
    return Population.load(run / "population.json")[member_id]


def test_members_are_listed_and_one_is_shown_with_its_lineage(run: Path, entente, tmp_path: Path) -> None:
    code, out, _ = entente("list", run, "--json", tmp_path / "all.json")
    assert code == 0
    assert "3 of 3 members may be drawn; revision 1, training has reached update 5" in " ".join(out.split())
    assert [line.split()[:3] for line in out.splitlines() if "policy/" in line] == [
        ["policy/v2", "1", "2"],  # it has no results yet
        ["policy/v4", "1", "4"],
    ]
    document = json.loads((tmp_path / "all.json").read_text())
    assert [found["id"] for found in document["members"]] == ["bot/random", "policy/v2", "policy/v4"]
    assert (document["revision"], document["update"]) == (1, 5)
    code, out, _ = entente("show", run, "policy/v4", "--json", tmp_path / "one.json")
    assert code == 0
    assert "verified" in out
    one = json.loads((tmp_path / "one.json").read_text())
    assert (one["lineage"], one["parent"], one["config_digest"]) == (["policy/v2"], "policy/v2", "0f0f")


def test_list_shows_every_members_standing(run: Path, entente, tmp_path: Path) -> None:
    results, book = Results(10.0), diplomacy_book()
    book.add("policy/v2")
    for _ in range(40):
        seats = {power: "learner" if power == "ITALY" else "policy/v2" for power in POWERS}
        game = score(seats, {power: 10 if power == "ITALY" else 4 for power in POWERS})
        results.record(game, "ITALY")
        book.record(game)
    results.save(run / "results.json")
    save_ratings(book, run / "ratings.json")
    code, out, _ = entente("list", run, "--json", tmp_path / "all.json")
    assert code == 0
    rows = {row[0]: row for row in map(str.split, out.splitlines()) if row and "/" in row[0]}
    assert rows["bot/random"][1] == "1000"  # an anchor
    assert rows["policy/v2"][2:4] == ["40", "98%"]
    points, half = map(float, rows["policy/v2"][1].split("±"))
    assert half > 0
    assert rows["policy/v4"][1:3] == ["1", "4"]  # weight and since alone
    found = {each["id"]: each["standing"] for each in json.loads((tmp_path / "all.json").read_text())["members"]}
    assert found["policy/v2"]["rating"]["mu"] == pytest.approx(points, abs=0.5)
    assert found["policy/v2"]["games"] == 40
    assert found["policy/v4"] == {"rating": None, "games": 0, "score": None}


def test_lineage_stays_within_this_population(run: Path, entente, tmp_path: Path) -> None:
    with Population.load(run / "population.json").transaction() as population:
        for name, source in (("own", "checkpoints/5"), ("guest", "other-0f")):
            fields = {"id": f"policy/{name}", "version": 5, "source": source, "parent": "policy/v4"}
            population.add(dataclasses.replace(population["policy/v4"], **fields))
    found = {}
    for name in ("own", "guest"):
        assert entente("show", run, f"policy/{name}", "--json", tmp_path / "one.json")[0] == 0
        found[name] = json.loads((tmp_path / "one.json").read_text())["lineage"]
    assert found == {"own": ["policy/v4", "policy/v2"], "guest": []}


def test_bots_can_join_retire_return_and_be_pinned(run: Path, entente) -> None:
    code, out, _ = entente("add", "dumbbot", "--to", run, "--country", "france", "--weight", "3", "--pin")
    assert (code, out) == (0, f"bot/dumbbot joined {run}; line-ups may draw it from update 6 on\n")
    added = member(run, "bot/dumbbot")
    assert (added.country, added.weight, added.pinned, added.created_at_update) == ("FRANCE", 3.0, True, 6)
    assert entente("retire", run, "policy/v4") == (0, "policy/v4 is retired\n", "")
    assert member(run, "policy/v4").retired
    assert "3 of 4 members" in entente("list", run)[1]
    assert entente("retire", run, "policy/v4", "--undo")[1] == "policy/v4 may be drawn again, from update 6 on\n"
    assert (member(run, "policy/v4").retired, member(run, "policy/v4").created_at_update) == (False, 6)
    assert entente("pin", run, "policy/v2")[0] == 0
    assert member(run, "policy/v2").pinned
    assert entente("pin", run, "policy/v2", "--undo")[0] == 0
    assert not member(run, "policy/v2").pinned


def test_a_remote_player_joins_where_the_runs_config_describes_it(run: Path, entente) -> None:
    assert "no remote is called 'gpt'" in entente("add", "remote:gpt", "--to", run)[2]
    with (run / "config.toml").open("a") as file:
        file.write('[opponents.remotes.gpt]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    assert entente("add", "remote:gpt", "--to", run)[0] == 0
    assert member(run, "remote/gpt").kind == "remote"


def test_errors_are_one_line_and_change_nothing(run: Path, entente, tmp_path: Path) -> None:
    before = (run / "population.json").read_bytes()
    for arguments, message in (
        (("list", tmp_path / "none"), "holds no run with a population"),
        (("show", run, "policy/v9"), "no member 'policy/v9'"),
        (("retire", run, "policy/v4", "--undo"), "policy/v4 is not retired"),
        (("add", "random", "--to", run), "already has a member 'bot/random'"),
        (("add", "dumbbot", "--to", run, "--country", "SPAIN"), "there is no country 'SPAIN'"),
        (("add", "dumbbot", "--to", run, "--id", "x"), "are for policies"),
        (("add", tmp_path / "none", "--to", run), "there is no folder"),
        (("add", run, "--to", run), "is no run with a checkpoint"),
        (("promote", run), "has no checkpoint; there are: none"),
        (("promote", run, "--checkpoint", "3"), "has no checkpoint 3; there are: none"),
    ):
        code, _, error = entente(*arguments)
        assert code == 2, arguments
        assert message in error
        assert error.startswith("error: ")
        assert error.count("\n") == 1
    assert (run / "population.json").read_bytes() == before
    (run / "population" / "v2.safetensors").write_bytes(b"")
    assert "has SHA-256" in entente("show", run, "policy/v2")[2]


@pytest.mark.parametrize("command", [("list",), ("show", "bot/random"), ("promote",)])
def test_a_run_of_another_format_is_refused_in_one_line(run: Path, entente, command: tuple[str, ...]) -> None:
    (run / "run_id").write_text("demo-1\n")
    code, out, err = entente(command[0], run, *command[1:])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"the run in {run} has format 1" in err


def test_last_member_for_any_role_cannot_retire(run: Path, entente) -> None:
    assert entente("add", "dumbbot", "--to", run, "--country", "ITALY")[0] == 0
    assert entente("retire", run, "policy/v2")[0] == 0
    assert entente("retire", run, "policy/v4")[0] == 0
    code, _, error = entente("retire", run, "bot/random")
    assert code == 2
    assert "bot/random is the last member that can play any role; add another one first" in error
    assert not member(run, "bot/random").retired


def test_a_policy_that_joins_shows_its_checks_one_by_one(entente, tmp_path: Path) -> None:
    ours, theirs = make_run(tmp_path / "ours", 1), make_run(tmp_path / "theirs", 2)
    code, out, err = entente("add", theirs, "--to", ours, "--id", "other")
    assert code == 0
    assert "policy/other joined" in out
    assert err.splitlines() == [f"checking that policy/other fits the run: {step} of 4" for step in (1, 2, 3, 4)]
    code, _, err = entente("promote", ours, "--id", "other")
    assert code == 2
    assert "already has a member 'policy/other'" in err
    assert "checking" not in err
