"""What a scenario's file may say, and the one line that refuses the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from services.environments.diplomacy.scenarios import files
from services.environments.diplomacy.scenarios.scenario import ScenarioError, phase_number
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import DOCUMENT, scenario

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"difficulty": 3}, "difficulty: there is no such key"),
    ({"score": {"provinces": ["VEN"], "bonus": 1}}, "score.bonus: there is no such key"),
    ({"country": "SPAIN"}, "there is no power 'SPAIN'"),
    ({"units": {"SPAIN": ["A POR"]}}, "there is no power 'SPAIN'"),
    ({"phase": "S1903A"}, "phase: "),
    ({"horizon": "F1902M"}, "horizon: F1902M is before the first phase, S1903M"),
    ({"horizon": "W1924A"}, "horizon: W1924A is more than 20 years after S1903M"),
    ({"units": {"ITALY": ["A VENICE"]}}, "'A VENICE' is no unit such as A PAR"),
    ({"units": {"ITALY": ["A VEN", "F VEN"]}}, "units: VEN is there twice"),
    ({"centers": {"ITALY": ["VEN", "ROM"], "AUSTRIA": ["VEN"]}, "units": {"ITALY": ["A VEN"]}}, "centers: VEN is"),
    ({"units": {"FRANCE": ["A MAR", "A PAR", "F BRE"]}}, "FRANCE has 3 units and 2 centres"),
    ({"retreats": {"ITALY": {"A VEN": ["APU"]}}}, "retreats: there are none in S1903M"),
    ({"family": "alliance", "score": {"goal": 2}}, "score.partner: the family alliance needs it"),
    ({"family": "endgame", "score": {}}, "an endgame has an aim"),
    ({"family": "endgame", "score": {"aim": "win", "goal": 3}}, "score.goal: the family endgame does not use it"),
    ({"family": "opening", "score": {"goal": 3, "provinces": ["TRI"]}}, "ITALY has 3 centres already"),
    ({"score": {"provinces": ["TRI"]}}, "TRI is no centre of ITALY, so it cannot keep it"),
    ({"family": "endgame", "score": {"aim": "stop", "leader": "AUSTRIA"}}, "AUSTRIA has too few centres"),
    ({"others": {"ITALY": {"plays": "hold"}}}, "ITALY is the country that is tested"),
    ({"others": {"FRANCE": {"plays": "alphazero"}}}, "no bot is called 'alphazero'; there are dumbbot"),
    ({"others": {"FRANCE": {"spares": ["SPAIN"]}}}, "there is no power 'SPAIN'"),
    ({"others": {"FRANCE": {"supports": "sometimes"}}}, "others.FRANCE.supports"),
    ({"task": "Two\nlines."}, "task: a text has no line breaks"),
    ({"title": ""}, "title: "),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_wrong_value_is_refused_in_one_line_with_the_file(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(tomli_w.dumps({**DOCUMENT, **change}).encode())
    with pytest.raises(ScenarioError) as caught:
        files.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"id = ", b"\xff\xfe", b"[units\n", b"id = 'x'\nid = 'y'"])
def test_a_file_that_is_no_scenario_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=r"broken\.toml"):
        files.from_file(path)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        files.from_file(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match=r"holds no \*\.toml file"):
        files.in_path(tmp_path)


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_no_file_gets_through_but_a_scenario(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.toml"
        path.write_bytes(content)
        with pytest.raises(ScenarioError):
            files.from_file(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    other = {"plays": "greedy", "spares": ["ITALY"], "orders": {"S1903M": ["A MAR H"]}, "until": "F1903M"}
    given = scenario(others={"FRANCE": other})
    files.write(given, tmp_path / "mine.toml")
    assert files.from_file(tmp_path / "mine.toml") == given
    for each in files.shipped().values():
        files.write(each, tmp_path / "again.toml")
        assert files.from_file(tmp_path / "again.toml") == each


def test_scenarios_are_found_by_id_family_and_path(tmp_path: Path) -> None:
    files.write(scenario(), tmp_path / "mine.toml")
    assert [each.id for each in files.named("italy-opening-lepanto")] == ["italy-opening-lepanto"]
    assert {each.family for each in files.named("crisis")} == {"crisis"}
    assert len(files.named("all")) == len(files.shipped()) >= 56
    assert files.named(str(tmp_path)) == files.named(str(tmp_path / "mine.toml")) == [scenario()]
    assert len(files.all_named(["crisis", "all", "crisis"])) == len(files.shipped())
    with pytest.raises(ScenarioError, match="no scenario is called 'italy-opening-lepant'"):
        files.named("italy-opening-lepant")


def test_two_scenarios_with_one_id_are_refused(tmp_path: Path) -> None:
    files.write(scenario(), tmp_path / "one.toml")
    files.write(scenario(title="Another"), tmp_path / "two.toml")
    with pytest.raises(ScenarioError, match="two of its files have the id two-armies"):
        files.in_path(tmp_path)
    with pytest.raises(ScenarioError, match="two different scenarios have the id two-armies"):
        files.all_named([str(tmp_path / "one.toml"), str(tmp_path / "two.toml")])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"units": {"ITALY": ["A ION"]}}, "units: A ION cannot stand on the map"),
        ({"units": {"ITALY": ["F STP"]}}, "units: F STP cannot stand on the map"),
        ({"centers": {"ITALY": ["TUS", "VEN", "ROM"], "AUSTRIA": ["BUD", "TRI"], "FRANCE": ["MAR"]}}, "no TUS"),
        ({"units": {"AUSTRIA": ["A TRI"]}}, "ITALY has nothing to decide in S1903M"),
        ({"others": {"FRANCE": {"stays_out_of": ["XYZ"]}}}, "others.FRANCE: the map has no XYZ"),
    ],
)
def test_a_position_that_the_board_does_not_allow_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        ScenarioGame.begin(scenario(**change))


def test_phases_sort_in_the_order_of_play() -> None:
    order = ["S1901M", "S1901R", "F1901M", "F1901R", "W1901A", "S1902M", "W1910A"]
    assert sorted(order, key=phase_number) == order


def test_the_example_of_the_page_is_a_scenario(tmp_path: Path) -> None:
    page = (files.LIBRARY.parent / "README.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.toml").write_text(example)
    game = ScenarioGame.begin(files.from_file(tmp_path / "mine.toml"))
    assert game.scenario.others["ITALY"].into == ("SER",)
    (tmp_path / "mine.toml").write_text(example.replace("# aim", "aim"))
    with pytest.raises(ScenarioError, match=r"score\.aim: the family alliance does not use it"):
        files.from_file(tmp_path / "mine.toml")
