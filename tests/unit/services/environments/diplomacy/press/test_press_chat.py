"""Press in the prompts of chat models: what is shown, in which order, and that letters stay quotations."""

from __future__ import annotations

from services.environments.diplomacy.press.view import PressPosition
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.press_language import PressLanguage
from tests.unit.services.environments.diplomacy.press.test_press_games import HOSTILE, world

LANGUAGE = PressLanguage()
MARKS = ("<|", "[I", "[/", "{{", "{%", "</", "<s", "\u202e", "\u2066", "\x1b", "\x00")


def named(view: PressPosition, power: str, cut: int = 0) -> dict[str, str]:
    return {part.name: part.text for part in LANGUAGE.sections(view, power, cut=cut)}


def test_letters_are_asked_for_first_and_orders_afterwards() -> None:
    game = world(press_rounds=1).new_game("", "FRANCE", 0)
    letters = named(game.view("FRANCE"), "FRANCE")  # type: ignore[arg-type]
    assert list(letters) == ["rules", "press rules", "country", "position", "moves of other powers", "letters to write"]
    assert "without messages" not in letters["rules"]
    assert "GERMANY: your text" in letters["letters to write"]
    game.step({"ENGLAND": ("FRANCE Let us have peace.",), "FRANCE": ("ENGLAND PEACE", "ITALY hello")})
    orders = named(game.view("FRANCE"), "FRANCE")  # type: ignore[arg-type]
    assert list(orders)[-3:] == ["letters", "promises", "legal orders"]
    assert orders["letters"].split("\n") == [
        "Letters before these orders:",
        *("S1901M, ENGLAND to you:", "> Let us have peace."),
        *("S1901M, you to ENGLAND:", "> PEACE"),
        *("S1901M, you to ITALY:", "> hello"),
    ]
    assert orders["promises"].split("\n") == ["You have promised ENGLAND: PEACE", "ENGLAND has promised you: PEACE"]
    game.step({})
    earlier = named(game.view("FRANCE"), "FRANCE")  # type: ignore[arg-type]
    assert "S1901M, ENGLAND to you:" in earlier["earlier letters"]
    assert "earlier letters" not in named(game.view("FRANCE"), "FRANCE", cut=1)  # type: ignore[arg-type]


def test_whatever_a_letter_holds_it_stays_a_quotation() -> None:
    plain = DiplomacyLanguage()
    for text in HOSTILE:
        game = world(press_rounds=1).new_game("", "FRANCE", 0)
        game.step({"ENGLAND": (f"FRANCE {text}",)})
        view = game.view("FRANCE")
        found = {part.name: part.text for part in LANGUAGE.sections(view, "FRANCE")}
        without = {part.name: part.text for part in plain.sections(game.position, "FRANCE")}
        assert {name: found[name] for name in without if name != "rules"} == {
            name: text for name, text in without.items() if name != "rules"
        }
        shown = found.get("letters", "").split("\n")
        assert all(line.startswith("> ") for line in shown[2:])
        assert len("\n".join(shown)) < 1100
        assert not any(mark in found.get("letters", "") for mark in MARKS)


def test_letters_of_a_text_are_told_apart_by_their_recipients() -> None:
    view = world().new_game("", "FRANCE", 0).view("FRANCE")
    answer = LANGUAGE.parse(
        "Here are my letters\nENGLAND: Dear king,\nlet us have peace.\nRUSSIA PEACE", view, "FRANCE"
    )
    assert answer.actions == ("ENGLAND Dear king,\nlet us have peace.", "RUSSIA PEACE")
    assert [defect.reason for defect in answer.defects] == ["no_recipient"]
