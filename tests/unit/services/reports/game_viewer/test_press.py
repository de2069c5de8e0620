"""What the page of a game is told of its letters."""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo_core.errors import EntenteError
from services.reports.game_viewer.press import told_press


@dataclass
class Story:
    """One phase in which a promise was kept and one broken."""

    promises: dict[str, list[tuple[str, str, str, str]]] = field(
        default_factory=lambda: {
            "S1901M": [("FRANCE", "ITALY", "peace", "kept"), ("ITALY", "FRANCE", "peace", "broken")]
        }
    )
    pairs: dict[tuple[str, str], tuple[int, int, int, int]] = field(
        default_factory=lambda: {("FRANCE", "ITALY"): (1, 0, 2, 9), ("ITALY", "FRANCE"): (0, 1, 0, 9)}
    )
    alliances: dict[int, list[str]] = field(default_factory=lambda: {1901: ["Leviathan"]})
    trust: dict[int, dict[tuple[str, str], tuple[int, int]]] = field(
        default_factory=lambda: {1901: {}, 1902: {("ITALY", "FRANCE"): (0, 1), ("FRANCE", "ITALY"): (1, 0)}}
    )
    meanings: dict[str, dict[tuple[str, str], str]] = field(
        default_factory=lambda: {"S1901M": {("FRANCE", "PEACE"): "Let us have peace."}}
    )


def test_a_story_becomes_plain_data() -> None:
    asked = []
    told, note = told_press({"id": "x"}, lambda document, name: asked.append((document, name)) or Story(), "game.json")
    assert asked == [({"id": "x"}, "game.json")]
    assert note == ""
    assert told["promises"] == {
        "S1901M": [["FRANCE", "ITALY", "peace", "kept"], ["ITALY", "FRANCE", "peace", "broken"]]
    }
    assert told["pairs"] == [["FRANCE", "ITALY", 1, 1], ["ITALY", "FRANCE", 0, 1]]  # kept, and all
    assert told["alliances"] == [[1901, ["Leviathan"]]]
    assert told["meanings"] == {"S1901M": [["FRANCE", "PEACE", "Let us have peace."]]}
    assert told["trust"]["years"] == [1901, 1902]
    assert told["trust"]["pairs"] == [
        ["FRANCE", "ITALY", [[0, 0], [1, 1]]],
        ["ITALY", "FRANCE", [[0, 0], [0, 1]]],
    ]


def test_games_without_letters_show_nothing_and_damaged_ones_say_why() -> None:
    def refuse(document: object, name: str) -> None:
        raise EntenteError(f"{name}: no such power")

    assert told_press({}, None, "game.json") == ({}, "")
    assert told_press({}, lambda document, name: None, "game.json") == ({}, "")
    assert told_press({}, refuse, "game.json") == ({}, "Its promises cannot be told: game.json: no such power")
