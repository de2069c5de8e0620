"""A population from elsewhere is refused in one line where it names files outside its folder, or no files at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from grpo_core.errors import EntenteError
from opponents.league.results import Results
from opponents.matchmaking.curriculum import Curriculum
from opponents.matchmaking.lineup_log import LineupLog
from opponents.population.member import PopulationError
from opponents.population.population import Population
from opponents.population.redis_mirror import frozen_weights
from opponents.population.weights import checksum_of, form_of, read_weights
from opponents.ratings.book import RatingBook
from opponents.ratings.storage import load_ratings, save_ratings
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents.world_cases import diplomacy_book


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A population of a bot and a snapshot, in ``run``; weights lie beside the run, too."""
    run = tmp_path / "run"
    (run / "population").mkdir(parents=True)
    for path in (run / "population" / "v2.safetensors", tmp_path / "outside.safetensors"):
        save_file({"w": np.ones(2, np.float32)}, path)
    population = Population(run / "population.json")
    population.add_bot("random")
    population.add_snapshot(run / "population" / "v2.safetensors", version=2)
    population.save()
    return population.path


def change(file: Path, **fields: Any) -> None:
    document = json.loads(file.read_text())
    document["members"][1] |= fields
    file.write_text(json.dumps(document))


def refusal(file: Path) -> str:
    with pytest.raises(PopulationError) as caught:
        Population.load(file)
    message = str(caught.value)
    assert len(message) <= 500
    assert message.isprintable()
    return message


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "population/../../outside.safetensors", "a\0b", "", ".", "\u202e"]
)
def test_weights_that_leave_the_folder_are_refused(file: Path, name: str) -> None:
    change(file, name=name)
    assert "policy/v2: its weights" in refusal(file)


@pytest.mark.parametrize(
    "member_id",
    ["policy/../../x", "policy//etc/passwd", "policy/", "policy/a b", "policy/\x1b[31m", "policy/" + "x" * 300],
)
def test_ids_that_are_no_plain_names_are_refused(file: Path, member_id: str) -> None:
    change(file, id=member_id)
    assert "a member's id is its kind" in refusal(file)


def test_a_snapshot_outside_the_folder_cannot_be_added(file: Path, tmp_path: Path) -> None:
    population = Population.load(file)
    with pytest.raises(PopulationError, match="not in the population's folder"):
        population.add_snapshot(tmp_path / "outside.safetensors", version=3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"source": "\x1b]0;title\x07"}, "no name or origin"),
        ({"parent": "x" * 1000}, "no name or origin"),
        ({"version": -1}, "no number of updates"),
        ({"created_at_update": 1 << 62}, "no number of updates"),
        ({"weight": 1e300}, "weight must be a number from 0"),
        ({"country": "\n"}, "a role's name is up to 60 letters"),
        ({"country": "A" * 61}, "a role's name is up to 60 letters"),
        ({"x" * 100_000: 1}, "has a field"),
    ],
)
def test_odd_fields_of_a_member_are_refused(file: Path, fields: dict[str, Any], reason: str) -> None:
    change(file, **fields)
    assert reason in refusal(file)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": ' + "1" * 10_000 + "}", '{"schema": "\\ud800"}', "\xff"])
def test_documents_that_no_reader_can_hold_are_refused(file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    assert "is not a population file" in refusal(file)
    for load in (lambda path: Results.load(path, 1.0), _curriculum, _ratings):
        with pytest.raises(PopulationError):
            load(file)


def _curriculum(path: Path) -> Curriculum:
    return Curriculum.load(path, OpponentsSettings(), dict.fromkeys(POWERS, 1 / 7))


def _ratings(path: Path) -> RatingBook:
    return load_ratings(path, POWERS)


def odd_file(path: Path, kind: str) -> str:
    """Make a file that is none at ``path``; returns how an error names it."""
    path.unlink(missing_ok=True)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:  # of holes
        path.touch()
        os.truncate(path, 1 << 43)
    return kind


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a folder", "MiB are read"])
def test_no_file_of_a_population_may_be_endless_or_no_file(file: Path, kind: str) -> None:
    weights = file.parent / "population" / "v2.safetensors"
    population = Population.load(file)
    member = population["policy/v2"]
    odd_file(weights, kind)
    for use in (
        lambda: form_of("policy/v2", weights),
        lambda: checksum_of("policy/v2", weights),
        lambda: read_weights(member, file),
        lambda: frozen_weights(member, file, None),
        lambda: population.verify(member),
    ):
        with pytest.raises(PopulationError, match=kind):
            use()
    odd_file(file, kind)
    assert kind in refusal(file)


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a folder", "MiB are read"])
def test_no_file_of_a_league_may_be_endless_or_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    odd_file(path, kind)
    for load in (
        lambda: Results.load(path, 1.0),
        lambda: _curriculum(path),
        lambda: _ratings(path),
        lambda: LineupLog(path),
    ):
        with pytest.raises(EntenteError):
            load()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("players", 0, "strength"), 1e300),
        (("prior", "sigma"), 1e300),
        (("counts", 0, "games"), -1),
        (("countries", 0), 1e9),
    ],
)
def test_ratings_beyond_any_are_refused(tmp_path: Path, place: tuple[Any, ...], value: float) -> None:
    book = diplomacy_book()
    book.add("policy/v2")
    book.games["policy/v2"], book.seats["policy/v2"] = 1, [1] * 7
    save_ratings(book, tmp_path / "ratings.json")
    document = part = json.loads((tmp_path / "ratings.json").read_text())
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (tmp_path / "ratings.json").write_text(json.dumps(document))
    with pytest.raises(PopulationError, match="not a ratings file"):
        _ratings(tmp_path / "ratings.json")


@pytest.mark.parametrize("fields", [{"level": -5}, {"shares": [1e308]}, {"shares": [-0.5]}])
def test_impossible_levels_of_a_curriculum_are_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "curriculum.json"
    _curriculum(tmp_path / "none").save(path)
    document = json.loads(path.read_text())
    document["countries"]["FRANCE"] |= fields
    path.write_text(json.dumps(document))
    with pytest.raises(PopulationError, match="is damaged"):
        _curriculum(path)
