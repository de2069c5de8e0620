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


def test_page_contains_seats(tmp_path: Path, saved: dict[str, Any]) -> None:
    text = write_viewer(file_of(tmp_path, saved), tmp_path / "game.html", {"FRANCE": "learner"}).read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["seats"] == {"FRANCE": "learner"}
    assert len(data["frames"]) == 4


def test_names_in_a_saved_game_are_escaped(tmp_path: Path, saved: dict[str, Any]) -> None:
    evil = copy.deepcopy(saved)
    evil["id"] = "</script><script>alert(1)</script>"
    text = write_viewer(file_of(tmp_path, evil), tmp_path / "game.html").read_text()
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
