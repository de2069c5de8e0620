"""The population: what it refuses, what it keeps, and that a crash cannot spoil its file."""

from __future__ import annotations

import json
import os

import pytest

from opponents.population import Member, Population, PopulationError, bot_checksum


@pytest.fixture
def population(tmp_path):
    (tmp_path / "snapshots").mkdir()
    for version in (10, 20, 30):
        (tmp_path / "snapshots" / f"{version}.safetensors").write_bytes(b"weights" * version)
    made = Population(tmp_path / "population.json")
    made.add_bot("dumbbot", weight=2.0)
    made.add_bot("random")
    made.add_policy(tmp_path / "snapshots" / "10.safetensors", version=10)
    made.add_policy(tmp_path / "snapshots" / "20.safetensors", version=20, parent="policy/v10", weight=0.5)
    return made


def test_it_comes_back_from_disk_as_it_was(population):
    population.retire("bot/random")
    population.save()
    again = Population.load(population.path)
    assert again.members == population.members
    assert [member.id for member in again.active()] == ["bot/dumbbot", "policy/v10", "policy/v20"]
    assert again["policy/v20"].parent == "policy/v10"
    assert again["policy/v20"].created_at_update == 20
    assert again["policy/v20"].name == "snapshots/20.safetensors"
    assert sorted(path.name for path in population.path.parent.iterdir()) == ["population.json", "snapshots"]


def test_members_are_verified_against_their_files(population, tmp_path):
    for member in population.members:
        population.verify(member)
    (tmp_path / "snapshots" / "10.safetensors").write_bytes(b"other weights")
    with pytest.raises(PopulationError, match=r"policy/v10: .*10\.safetensors has SHA-256"):
        population.verify(population["policy/v10"])
    (tmp_path / "snapshots" / "20.safetensors").unlink()
    with pytest.raises(PopulationError, match=r"policy/v20: cannot read its weights .*20\.safetensors: No such file"):
        population.verify(population["policy/v20"])


def test_a_folder_can_move_with_its_weights(population, tmp_path):
    population.save()
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    os.rename(tmp_path, moved)
    try:
        again = Population.load(moved / "population.json")
        again.verify(again["policy/v10"])
        assert again.weights_path(again["policy/v10"]) == moved / "snapshots" / "10.safetensors"
    finally:
        os.rename(moved, tmp_path)


def test_a_bot_of_another_release_is_noticed(population):
    old = Member(
        id="bot/old",
        kind="bot",
        name="hold",
        version=0,
        checksum=bot_checksum("greedy"),
        parent=None,
        created_at_update=0,
        weight=1.0,
    )
    with pytest.raises(PopulationError, match=r"bot/old .*another version of this package"):
        population.verify(population.add(old))


def test_impossible_members_are_refused(population, tmp_path):
    with pytest.raises(PopulationError, match="already has a member 'bot/random'"):
        population.add_bot("random")
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(PopulationError, match="bot/hold: weight must be"):
            population.add_bot("hold", weight=weight)
    with pytest.raises(PopulationError, match="policy/v99: cannot read"):
        population.add_policy(tmp_path / "none.safetensors", version=99)
    with pytest.raises(PopulationError, match="no member 'bot/nobody'"):
        population.retire("bot/nobody")
    with pytest.raises(PopulationError, match="bot/dumbbot is a bot and has no weights file"):
        population.weights_path(population["bot/dumbbot"])
    assert "bot/hold" not in population


def test_what_a_crash_undid_is_forgotten_and_the_rest_stays(population, tmp_path):
    population.add_policy(tmp_path / "snapshots" / "30.safetensors", version=30)
    assert population.set_weight("policy/v30", 3.0).weight == 3.0
    assert population["policy/v30"].weight == 3.0
    before = [member.id for member in population.active() if member.id != "policy/v30"]
    assert population.forget_after(20) == ("policy/v30",)
    assert population.forget_after(20) == ()
    assert [member.id for member in population.active()] == before
    population.add_policy(tmp_path / "snapshots" / "30.safetensors", version=30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not a population file"),
        ('{"members": []}', "is not a population file"),
        ('{"schema": 2, "members": [], "ratings": {}}', "has population schema 2; this version reads 1"),
        ('{"schema": 1, "members": [], "ratings": {}}', "is not a population file"),
        ('{"schema": 1, "members": [{"id": "bot/random"}]}', "is not a population file"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "population.json"
    path.write_text(text)
    with pytest.raises(PopulationError, match=message) as caught:
        Population.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PopulationError, match=r"no population file at .*population\.json"):
        Population.load(tmp_path / "population.json")


def test_a_save_that_fails_leaves_the_old_file_and_no_litter(population):
    population.save()
    before = population.path.read_bytes()
    assert json.loads(before)["schema"] == 1
    population.add_bot("hold")
    population.path.unlink()
    population.path.mkdir()  # the rename onto a folder fails
    with pytest.raises(OSError, match="director"):
        population.save()
    assert sorted(path.name for path in population.path.parent.iterdir()) == ["population.json", "snapshots"]
