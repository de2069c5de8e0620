"""Two games in step: where they part, which orders differ, and phases that only one of them has."""

from __future__ import annotations

from diplomacy import Game
from diplomacy.utils.export import to_saved_game_format

from services.reports.game_viewer.comparison import compare, comparison_page
from services.reports.game_viewer.frames import Film
from services.reports.game_viewer.game_viewer import Replay, make_replay

OPENING = {"AUSTRIA": ["A VIE - GAL"], "ITALY": ["A VEN - TYR", "A ROM - VEN"]}


def replay_of(*sheets: dict[str, list[str]], name: str = "one") -> Replay:
    game = Game(game_id=name)
    for sheet in sheets:
        for power, orders in sheet.items():
            game.set_orders(power, orders)
        game.process()
    return make_replay(to_saved_game_format(game))


def film_of(*sheets: dict[str, list[str]]) -> Film:
    return replay_of(*sheets).film


def test_a_game_beside_itself_never_parts() -> None:
    found = compare(film_of(OPENING, {}), film_of(OPENING, {}))
    assert found.parting is None
    assert found.same_start
    assert not any(step.different for step in found.steps)
    assert all(step.frames[0] == step.frames[1] for step in found.steps)


def test_the_orders_of_one_game_alone_are_told_from_shared_ones() -> None:
    second = {"ITALY": ["A TYR - BOH", "A VEN H"], "FRANCE": ["A PAR H"]}
    found = compare(film_of(OPENING, {"ITALY": ["A TYR - TRI", "A VEN H"]}), film_of(OPENING, second))
    assert found.parting == 1
    assert found.steps[0].different == {}
    assert found.steps[1].phase == "F1901M"
    assert found.steps[1].different == {"ITALY": (("A TYR - TRI",), ("A TYR - BOH",)), "FRANCE": ((), ("A PAR H",))}


def test_a_phase_that_one_game_lacks_shows_the_other_where_it_was() -> None:
    attack = {"ITALY": ["A TYR - TRI", "A VEN S A TYR - TRI"]}
    first, second = film_of(OPENING, attack, {}, {}), film_of(OPENING, {}, {}, {})
    assert [frame.phase for frame in first.frames] == ["S1901M", "F1901M", "F1901R", "W1901A", "S1902M"]
    found = compare(first, second)
    names = ["S1901M", "F1901M", "F1901R", "W1901A", "S1902M", "F1902M", "S1903M"]
    assert [step.phase for step in found.steps] == names
    step = found.steps[2]
    assert step.present == (True, False)
    assert second.frames[step.frames[1]].phase == "F1901M"
    assert step.different == {}
    assert found.steps[5].present == (False, True)


def test_games_of_other_beginnings_are_named_so() -> None:
    one, other = replay_of(OPENING), replay_of(OPENING, {})
    late = Film(other.film.game_id, "", other.film.powers, other.film.map_svg, other.film.frames[1:])
    found = compare(one.film, late)
    assert not found.same_start
    assert found.parting == 0
    page = comparison_page(one, Replay(late, other.shown, {**other.data, "frames": []}))
    assert "These games do not begin in the same position." in page


def test_the_page_says_where_they_part_and_holds_the_map_once() -> None:
    one, other = replay_of(OPENING, {"FRANCE": ["A PAR H"]}), replay_of(OPENING, {"RUSSIA": ["A MOS H"]}, name="two")
    page = comparison_page(one, other)
    assert "They part in F1901M: the orders of France, Russia differ." in page
    assert "<title>Game one beside two</title>" in page
    assert page.count('"map":') == 1
