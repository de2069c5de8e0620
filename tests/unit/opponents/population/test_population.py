"""The population: its checks, its file, and that a crash cannot damage it."""

from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from grpo_core.errors import StorageError
from opponents.population.member import Member, PopulationError, check_role, release_checksum
from opponents.population.population import Population

LISTED = [".population.json.lock", "population.json", "snapshots"]


@pytest.fixture
def population(tmp_path):
    (tmp_path / "snapshots").mkdir()
    for version in (10, 20, 30):
        save_file({"w": np.full(4, version, np.float32)}, tmp_path / "snapshots" / f"{version}.safetensors")
    made = Population(tmp_path / "population.json")
    made.add_bot("dumbbot", weight=2.0)
    made.add_bot("random", country="FRANCE")
    made.add_snapshot(tmp_path / "snapshots" / "10.safetensors", version=10)
    made.add_snapshot(
        tmp_path / "snapshots" / "20.safetensors",
        version=20,
        config_digest="0123456789abcdef",
    )
    made._change("policy/v20", weight=0.5)
    return made


def listed(population):
    return sorted(path.name for path in population.path.parent.iterdir())


def test_a_population_round_trips_through_disk(population):
    population.retire("bot/random")
    population.pin("policy/v10")
    population.advance_to(23)
    population.save()
    again = Population.load(population.path)
    assert again.document() == population.document()
    assert (again.revision, again.update, again.join_update) == (1, 23, 24)
    assert [member.id for member in again.active()] == ["bot/dumbbot", "policy/v10", "policy/v20"]
    assert again["policy/v20"] == Member(
        id="policy/v20",
        kind="policy",
        name="snapshots/20.safetensors",
        version=20,
        checksum=again["policy/v20"].checksum,
        parent="policy/v10",
        created_at_update=20,
        weight=0.5,
        form="full",
        config_digest="0123456789abcdef",
    )
    assert (again["bot/random"].country, again["bot/random"].form) == ("FRANCE", None)
    assert again["policy/v10"].pinned
    assert listed(population) == LISTED


def test_members_are_verified_against_their_files(population, tmp_path):
    for member in population.members:
        population.verify(member)
    save_file({"w": np.zeros(4, np.float32)}, tmp_path / "snapshots" / "10.safetensors")
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


def test_a_bot_of_another_release_fails_verification(population):
    old = Member(
        id="bot/old",
        kind="bot",
        name="hold",
        version=0,
        checksum=release_checksum("greedy"),
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
    for name in ("", "La France", "France\n", "Côte", "F" * 61):
        with pytest.raises(PopulationError, match="bot/hold: a role's name is up to 60 letters, digits, - and _, not"):
            population.add_bot("hold", country=name)
    with pytest.raises(PopulationError, match="policy/v99: cannot read"):
        population.add_snapshot(tmp_path / "none.safetensors", version=99)
    with pytest.raises(PopulationError, match="no member 'bot/nobody'"):
        population.retire("bot/nobody")
    with pytest.raises(PopulationError, match="bot/dumbbot is a bot and has no weights file"):
        population.weights_path(population["bot/dumbbot"])
    with pytest.raises(PopulationError, match="bot/odd: a bot has no weights, so it has no form 'full'"):
        population.add(dataclasses.replace(population["bot/random"], id="bot/odd", form="full"))
    assert "bot/hold" not in population


@pytest.mark.parametrize("content", ["pickle", "torch", "cut", "empty"])
def test_weights_must_be_safetensors_by_content(population, tmp_path, content):
    path = tmp_path / "snapshots" / "99.safetensors"
    whole = (tmp_path / "snapshots" / "30.safetensors").read_bytes()
    if content == "empty":
        save_file({}, path)
    else:
        pickled = b"\x80\x04\x95" + b"\x00" * 40
        path.write_bytes({"pickle": pickled, "torch": b"PK\x03\x04" + pickled, "cut": whole[:-1]}[content])
    with pytest.raises(PopulationError, match=r"policy/v99: .*99\.safetensors holds no (whole safetensors|tensors)"):
        population.add_snapshot(path, version=99)
    assert "policy/v99" not in population


def test_an_adapter_is_recognised_by_its_content(population, tmp_path):
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "snapshots" / "adapter.st", {"adapter_config": '{"r": 2}'})
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "snapshots" / "adapter_config.safetensors", {"format": "pt"})
    assert population.add_snapshot(tmp_path / "snapshots" / "adapter.st", version=40).form == "adapter"
    assert population.add_snapshot(tmp_path / "snapshots" / "adapter_config.safetensors", version=41).form == "full"


def test_a_resume_removes_later_snapshots_and_keeps_members_added_by_hand(population, tmp_path):
    file = tmp_path / "snapshots" / "30.safetensors"
    population.add_snapshot(file, version=30)
    population.advance_to(30)
    population.add_bot("hold", created_at_update=population.join_update)
    population.add(
        dataclasses.replace(
            population["policy/v30"],
            id="policy/other-v400",
            version=400,
            source="other-1f",
            created_at_update=population.join_update,
        )
    )
    population.reactivate(population.retire("policy/v20").id)
    before = [member.id for member in population.active() if member.id != "policy/v30"]
    assert population.remove_snapshots_after(20) == ("policy/v30",)
    assert population.remove_snapshots_after(20) == ()
    population.advance_to(20)
    assert (population.update, population.join_update) == (
        30,
        31,
    )  # the blocks of 21 to 30 may have begun without them
    assert [member.id for member in population.active()] == before
    assert {"bot/hold", "policy/other-v400", "policy/v20"} <= set(before)
    assert population["policy/v20"].created_at_update == 31
    population.add_snapshot(file, version=30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not a population file"),
        (b"\xff{}", "is not a population file"),
        ('{"members": []}', "is not a population file"),
        ('{"schema": 3, "members": [], "ratings": {}}', "has population schema 3; this version reads 1 and 2"),
        ('{"schema": 1, "members": [], "ratings": {}}', "is not a population file"),
        ('{"schema": 1, "members": [{"id": "bot/random"}]}', "is not a population file"),
        ('{"schema": 2, "members": []}', "is not a population file.*revision"),
        ('{"schema": 2, "revision": -1, "update": 0, "members": []}', "is not a population file"),
        ('{"schema": 2, "revision": 1, "update": 0, "members": [{"retird": true}]}', "a field 'retird'"),
    ],
)
def test_other_files_are_refused_with_a_message_of_one_line(tmp_path, text, message):
    path = tmp_path / "population.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PopulationError, match=message) as caught:
        Population.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members.append(members[0]), "has 'bot/dumbbot' twice"),
        (lambda members: members[0].update(id="policy/v1"), "'policy/v1' is no id of a bot"),
        (lambda members: members[0].update(weight=-1), "weight must be"),
        (lambda members: members[0].update(country="S PAIN"), "not 'S PAIN'"),
        (lambda members: members[2].update(form="pickle"), "is not a population file"),
    ],
)
def test_damaged_members_are_refused(population, change, message):
    population.save()
    document = json.loads(population.path.read_bytes())
    change(document["members"])
    population.path.write_text(json.dumps(document))
    with pytest.raises(PopulationError, match=message):
        Population.load(population.path)


def test_a_file_of_schema_1_is_read(population):
    population.save()
    document = json.loads(population.path.read_bytes())
    for member in document["members"]:
        for added in ("form", "country", "config_digest", "source", "pinned"):
            del member[added]
    population.path.write_text(json.dumps({"schema": 1, "members": document["members"]}))
    again = Population.load(population.path)
    assert (again.revision, again.update) == (0, 20)
    assert [member.id for member in again.members] == [member.id for member in population.members]
    assert {(m.form, m.country, m.config_digest, m.source, m.pinned) for m in again.members} == {
        (None, None, None, None, False)
    }
    with again.transaction():
        again.retire("bot/random")
    assert json.loads(population.path.read_bytes())["schema"] == 2
    assert Population.load(population.path).document() == again.document()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PopulationError, match=r"no population file at .*population\.json"):
        Population.load(tmp_path / "population.json")


def test_a_failed_save_leaves_the_old_file_and_no_draft(population, monkeypatch):
    population.save()
    before = population.path.read_bytes()
    assert json.loads(before)["schema"] == 2
    population.add_bot("hold")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(StorageError, match="disk full"):
        population.save()
    assert population.path.read_bytes() == before
    assert listed(population) == LISTED


def test_specialists_may_be_for_any_role_and_are_checked_where_the_world_is_known(population):
    assert population.add_bot("hold", country="seat_B-2").country == "seat_B-2"
    check_role("B", ("A", "B"))
    with pytest.raises(PopulationError, match=r"^bot/hold: there is no seat 'seat_B-2'; there are A, B$"):
        check_role("seat_B-2", ("A", "B"), "bot/hold: ", role_name="seat")
