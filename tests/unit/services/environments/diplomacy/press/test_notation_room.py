"""What letters may take of a prompt in compact notation, and which lines its mask has."""

from __future__ import annotations

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.press_notation import MOST_ITEMS, MOST_SAID
from services.environments.diplomacy.world import Diplomacy

PROVINCES = (
    "BUR",
    "PIC",
    "BEL",
    "RUH",
    "MUN",
    "TYR",
    "PIE",
    "GAS",
    "MAR",
    "SPA",
    "ENG",
    "NTH",
    "HOL",
    "KIE",
    "DEN",
    "SIL",
)


def test_the_mask_has_no_line_that_is_longer_than_a_letter() -> None:
    world = Diplomacy(GameSettings(press_rounds=1, press_length=20))
    slots = world.language.slots(world.new_game("", "FRANCE", 0).view("FRANCE"), "FRANCE")
    lines = {line.partition(" ")[2] for slot in slots for line in slot.alternatives}
    assert max(map(len, lines)) == 20
    assert {"PASS", "PEACE", "WILL A PAR - BUR", "ALLY AGAINST ENGLAND"} <= lines


def test_a_partner_that_promises_much_leaves_room_for_what_others_promised() -> None:
    world = Diplomacy(GameSettings(press_rounds=2))
    game = world.new_game("", "FRANCE", 0)
    thirds = [power for power in POWERS if power not in ("FRANCE", "GERMANY")]
    much = ["PEACE", *(f"ALLY AGAINST {power}" for power in thirds), *(f"DMZ {province}" for province in PROVINCES)]
    for sender, recipient in (("GERMANY", "FRANCE"), ("FRANCE", "GERMANY")):
        letter = "\n".join(much)
        game.press.take(game.position, {sender: [f"{recipient} {letter}"], "TURKEY": ["FRANCE WILL F ANK - CON"]})
    prompt = world.language.prompt(game.press.view(game.position, "FRANCE"), "FRANCE")
    assert "HOLDS TURKEY WILL F ANK - CON" in prompt
    assert prompt.count("HOLDS GERMANY") + prompt.count("OWES GERMANY") == MOST_ITEMS - 1


def test_a_letter_is_whole_where_all_fit_and_loses_its_last_lines_where_they_do_not() -> None:
    world = Diplomacy(GameSettings(press_rounds=2))
    letter = "\n".join(f"DMZ {province}" for province in PROVINCES)
    writers = ("AUSTRIA", "ENGLAND", "GERMANY", "ITALY", "RUSSIA")
    lines = {}
    for count in (1, 2, 3, 5):
        game = world.new_game("", "FRANCE", 0)
        sent = {power: [f"FRANCE {letter}"] for power in writers[:count]}
        game.press.take(game.position, {**sent, "TURKEY": ["FRANCE PEACE"]})
        prompt = world.language.prompt(game.press.view(game.position, "FRANCE"), "FRANCE")
        lines[count] = [prompt.count(f"FROM {power} DMZ") for power in writers[:count]]
        assert "FROM TURKEY PEACE" in prompt
    assert lines == {1: [16], 2: [16, 16], 3: [11, 11, 11], 5: [7] * 5}
    game.press.take(game.position, {**sent, "TURKEY": [f"FRANCE {letter}"]})
    prompt = world.language.prompt(game.press.view(game.position, "FRANCE"), "FRANCE")
    assert prompt.count("FROM TURKEY DMZ") == MOST_SAID
    assert prompt.count("FROM ") == MOST_ITEMS
