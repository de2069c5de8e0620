"""Press in the prompts of chat models: what is shown, in which order, and that letters stay quotations."""

from __future__ import annotations

from services.environments.diplomacy.press.view import PressPosition
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.press_language import PressLanguage
from tests.unit.services.environments.diplomacy.press.games import HOSTILE
from tests.unit.services.environments.diplomacy.press.test_press_games import world

LANGUAGE = PressLanguage()
MARKS = ("<|", "[I", "[/", "{{", "{%", "</", "<s", "\u202e", "\u2066", "\x1b", "\x00")


def named(view: PressPosition, power: str, cut: int = 0) -> dict[str, str]:
    return {part.name: part.text for part in LANGUAGE.sections(view, power, cut=cut)}


def test_letters_are_asked_for_first_and_orders_afterwards() -> None:
    game = world(press_rounds=1).new_game("", "FRANCE", 0)
    letters = named(game.view("FRANCE"), "FRANCE")  # type: ignore[arg-type]
    fixed = ["rules", "press rules", "country", "position", "moves of other powers", "legal orders"]
    assert list(letters) == [*fixed, "what to write"]
    assert "without messages" not in letters["rules"]
    assert "Answer with your orders" not in letters["rules"]
    assert "GERMANY: your text" in letters["what to write"]
    game.step({"ENGLAND": ("FRANCE Let us have peace.",), "FRANCE": ("ENGLAND PEACE", "ITALY hello")})
    orders = named(game.view("FRANCE"), "FRANCE")  # type: ignore[arg-type]
    assert list(orders) == [*fixed, "letters", "promises", "what to write"]
    assert {name: orders[name] for name in fixed} == {name: letters[name] for name in fixed}, "the prefix is cached"
    assert orders["what to write"].startswith("Give every unit one order. Answer with your orders alone")
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
    cut = LANGUAGE.cuts.index("earlier letters") + 1
    assert "earlier letters" not in named(game.view("FRANCE"), "FRANCE", cut)  # type: ignore[arg-type]


def test_letters_with_one_partner_stand_together() -> None:
    game = world(press_rounds=2).new_game("", "FRANCE", 0)
    game.step({"ENGLAND": ("FRANCE one",), "ITALY": ("FRANCE two",)})
    game.step({"FRANCE": ("ENGLAND three",)})
    shown = named(game.view("FRANCE"), "FRANCE")["letters"]  # type: ignore[arg-type]
    assert [line for line in shown.split("\n") if line.startswith(">")] == ["> one", "> three", "> two"]


def test_what_is_cut_of_letters_is_old_or_long_before_it_is_all() -> None:
    game = world(press_rounds=1, until_year=1904).new_game("", "FRANCE", 0)
    while game.phase != "F1902M":
        game.step({"ENGLAND": (f"FRANCE {game.phase} {'x' * 900}",)} if game.to_act() and "M" in game.phase else {})
    game.step({"ENGLAND": (f"FRANCE now {'x' * 900}",)})
    view = game.view("FRANCE")
    lengths = []
    for cut in range(len(LANGUAGE.cuts) + 1):
        found = {part.name: part.text for part in LANGUAGE.sections(view, "FRANCE", cut=cut)}
        lengths.append(sum(map(len, found.values())))
        left_out = LANGUAGE.cuts[:cut]
        assert ("S1901M" in found.get("earlier letters", "")) == (not left_out)
        assert ("earlier letters" in found) == ("earlier letters" not in left_out)
        assert ("letters" in found) == ("letters" not in left_out)
        if "letters" in found:
            assert ("x" * 900 in found["letters"]) == ("ends of long letters" not in left_out)
    assert lengths[-1] < lengths[0] / 2


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
