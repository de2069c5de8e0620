from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from diplomacy import Game
from diplomacy.utils.export import to_saved_game_format

from grpo_core.errors import StorageError
from services.reports.game_viewer.frames import Film, make_film, read_saved_game
from services.reports.game_viewer.game_viewer import write_viewer
from services.reports.page import ReportError
from tests.paths import RECORDED_GAMES

RECORDED = RECORDED_GAMES


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    """Spring and fall 1901 with a bounce and supports, then a build."""
    game = Game(game_id="tiny")
    sheets = [
        {"FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"], "GERMANY": ["A MUN - BUR"], "ENGLAND": ["F LON - ENG"]},
        {"FRANCE": ["A BUR - BEL"], "ENGLAND": ["F ENG S A BUR - BEL", "A LVP - YOR"]},
    ]
    for sheet in sheets:
        for power, orders in sheet.items():
            game.set_orders(power, orders)
        game.process()
    game.set_orders("FRANCE", ["A PAR B"])
    game.process()
    document: dict[str, Any] = to_saved_game_format(game)
    return json.loads(json.dumps(document))


@pytest.fixture(scope="module")
def film(saved: dict[str, Any]) -> Film:
    return make_film(saved)


def test_every_phase_is_a_frame(film: Film, saved: dict[str, Any]) -> None:
    assert [frame.phase for frame in film.frames] == ["S1901M", "F1901M", "W1901A", "S1902M"]
    assert film.game_id == "tiny"
    assert [frame.centers["FRANCE"] for frame in film.frames] == [3, 3, 4, 4]
    assert film.frames[-1].units["FRANCE"] == len(saved["phases"][-1]["state"]["units"]["FRANCE"]) == 4


def test_every_order_is_drawn_once(film: Film) -> None:
    for frame in film.frames:
        given = sum(map(len, frame.orders.values()))
        layers = (frame.layers["OrderLayer"], frame.layers["HighestOrderLayer"])
        # Two empty sub-layers of the order layer are groups as well.
        assert sum(layer.count("<g") for layer in layers) - 2 == given


def test_orders_carry_their_results(film: Film) -> None:
    orders = dict(film.frames[0].orders["GERMANY"])
    assert orders["A MUN - BUR"] == ("bounce",)
    assert dict(film.frames[0].orders["FRANCE"])["A PAR - BUR"] == ()


def test_province_colours_are_the_engines(film: Film) -> None:
    assert set(film.frames[0].owners["FRANCE"]) == {"_par", "_mar", "_bre"}
    assert {"_bel", "_bur"} <= set(film.frames[2].owners["FRANCE"])
    drawn = Game().render()
    assert drawn.count('class="france"') == 3


def test_shared_map_has_no_owners_and_units(film: Film) -> None:
    assert "unit_PAR" not in film.map_svg
    assert not any(f'class="{power.lower()}"' in film.map_svg for power in film.powers)
    assert film.map_svg.count("<path") > 50
    assert 'd="M' in film.map_svg


def file_of(folder: Path, saved: dict[str, Any]) -> Path:
    path = folder / "game.json"
    path.write_text(json.dumps(saved))
    return path


def data_of(page: Path) -> dict[str, Any]:
    return dict(json.loads(page.read_text().split('id="data">')[1].split("</script>")[0]))


def test_page_and_terminal_say_who_played(tmp_path: Path, saved: dict[str, Any]) -> None:
    learner = {"player": "demo/checkpoints/90", "kind": "learner", "version": 90, "checksum": "0f" * 32}
    seats = {
        "FRANCE": {**learner, "decoding": "constrained", "temperature": 0.25},
        "TURKEY": {"player": "dumbbot", "kind": "bot", "checksum": "e7" * 32},
    }
    origin = {"schema": 1, "seats": seats, "seed": 2**63 - 1, "until_year": 1902, "commit": "af03+"}
    document = {**saved, "entente": {**origin, "package_version": "0.1.0"}}
    shown = write_viewer(file_of(tmp_path, document), tmp_path / "game.html")
    data = data_of(tmp_path / "game.html")
    assert data["seats"]["FRANCE"] == {
        "player": "demo/checkpoints/90", "kind": "learner", "version": "90 updates", "checksum": "0f" * 32,
        "sampling": "constrained, temperature 0.25",
    }  # fmt: skip
    assert data["seats"]["TURKEY"]["version"] == "release 0.1.0"
    # Text, since a script's number would lose the last digits of a seed.
    assert ["seed", "9223372036854775807"] in data["originFacts"]
    assert data["originNote"] == ""
    assert len(data["frames"]) == 4
    assert shown.centers["FRANCE"] == 4
    assert shown.origin.lines() == [
        "FRANCE  demo/checkpoints/90  learner, 90 updates, constrained, temperature 0.25  SHA-256 0f0f0f0f0f0f",
        "TURKEY  dumbbot              bot, release 0.1.0                                  SHA-256 e7e7e7e7e7e7",
        "seed 9223372036854775807, to the end of 1902, commit af03+, Entente 0.1.0",
    ]


def test_a_game_of_an_older_version_says_that_it_does_not_know(tmp_path: Path, saved: dict[str, Any]) -> None:
    shown = write_viewer(file_of(tmp_path, saved), tmp_path / "game.html")
    assert shown.origin.lines() == ["This file does not say who played."]
    assert data_of(tmp_path / "game.html")["seats"] == {}


SEAT = {"player": "x", "kind": "bot"}


@pytest.mark.parametrize(
    "record",
    [
        3,
        [],
        "\x1b[2Jx",
        {},
        {"schema": 2, "seats": {}},
        {"schema": 1},
        {"schema": 1, "seats": []},
        {"schema": 1, "seats": {"FRANCE": 3}},
        {"schema": 1, "seats": {"FRANCE": {"player": ["x"]}}},
        {"schema": 1, "seats": {"FRANCE": {"player": "x" * 10_000}}},
        {"schema": 1, "seats": {"\x1b]0;title\x07": SEAT}},
        {"schema": 1, "seats": {str(number): SEAT for number in range(1000)}},
        {"schema": 1, "seats": {"FRANCE": {**SEAT, "version": 10**30}}},
        {"schema": 1, "seats": {"FRANCE": {**SEAT, "temperature": float("nan")}}},
        {"schema": 1, "seats": {}, "seed": "7"},
        {"schema": 1, "seats": {}, "commit": {"a": 1}},
    ],
)
def test_a_damaged_record_is_one_line_beside_the_game(record: Any, tmp_path: Path, saved: dict[str, Any]) -> None:
    [line] = write_viewer(file_of(tmp_path, {**saved, "entente": record}), tmp_path / "game.html").origin.lines()
    assert line.startswith("The record of who played is damaged: ")
    assert len(line) <= 500
    assert line.isprintable()
    data = data_of(tmp_path / "game.html")
    assert (data["seats"], data["originNote"], len(data["frames"])) == ({}, line, 4)


def test_a_policy_that_ships_has_a_version_and_no_count_of_updates(tmp_path: Path, saved: dict[str, Any]) -> None:
    seats = {"FRANCE": {**SEAT, "kind": "shipped", "version": 55}, "ITALY": {**SEAT, "kind": "learner", "version": 55}}
    record = {"schema": 1, "seats": seats}
    shown = write_viewer(file_of(tmp_path, {**saved, "entente": record}), tmp_path / "game.html").origin.seats
    assert (shown["FRANCE"].version, shown["ITALY"].version) == ("version 55", "55 updates")


def test_texts_of_the_record_are_printable_and_no_markup(tmp_path: Path, saved: dict[str, Any]) -> None:
    evil = "</script><script>alert(1)</script>\x1b[2J\u202e\n" + "y" * 400
    seat = dict.fromkeys(("player", "kind", "checksum", "decoding"), evil)
    record = {"schema": 1, "seats": {"FRANCE": seat}, "commit": evil, "package_version": evil}
    shown = write_viewer(file_of(tmp_path, {**saved, "entente": record}), tmp_path / "game.html")
    assert "<script>alert(1)" not in (tmp_path / "game.html").read_text()
    for line in shown.origin.lines():
        assert "alert(1)" in line
        assert len(line) <= 500
        assert line.isprintable()


def test_names_in_a_saved_game_are_escaped(tmp_path: Path, saved: dict[str, Any]) -> None:
    evil = copy.deepcopy(saved)
    evil["id"] = "</script><script>alert(1)</script>"
    write_viewer(file_of(tmp_path, evil), tmp_path / "game.html")
    text = (tmp_path / "game.html").read_text()
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not one JSON document"),
        ("[1, 2]", "no list of phases"),
        ('{"phases": []}', "no list of phases"),
        ('{"phases": [{"name": "S1901M"}]}', "is not a saved game: KeyError"),
        ('{"phases": [7]}', "is not a saved game: TypeError"),
        ('{"map": "atlantis", "phases": [{"name": "S1901M", "state": {}}]}', "is not a saved game"),
    ],
)
def test_invalid_saved_games_raise_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "game.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=message) as raised:
        write_viewer(path, tmp_path / "game.html")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "game.html").exists()


def test_missing_file_and_missing_folder_are_named(tmp_path: Path, saved: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match=r"absent\.json cannot be read"):
        read_saved_game(tmp_path / "absent.json")
    with pytest.raises(StorageError, match=r"cannot write .*absent/game\.html: there is no folder for it"):
        write_viewer(file_of(tmp_path, saved), tmp_path / "absent" / "game.html")


@pytest.mark.parametrize("name", ["game_AUS.697.json", "game_RUS.1201.json"])
def test_recorded_games_have_every_order_drawn(name: str) -> None:
    path = RECORDED / name
    if not path.exists():
        pytest.skip("recorded games are not beside this checkout")
    document = dict(read_saved_game(path))
    document["phases"] = document["phases"][:12]
    for frame in make_film(document).frames:
        layers = (frame.layers["OrderLayer"], frame.layers["HighestOrderLayer"])
        assert sum(layer.count("<g") for layer in layers) - 2 == sum(map(len, frame.orders.values()))
