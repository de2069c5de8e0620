"""What the notes on an order sheet say about the places around a unit, beside the engine's own rules."""

import re
from collections import Counter
from functools import cache

import pytest
from diplomacy import Map

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import sheet
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.notation import split, words
from services.environments.diplomacy.text.notes import note_words, notes
from tests.unit.services.environments.diplomacy.text.test_notation import positions

MAP = Map()


def test_the_opening_has_the_documented_note():
    position = DiplomacyGame(1901).position
    noted = dict(zip(position.orderable["FRANCE"], notes(position, "FRANCE"), strict=True))
    assert noted["PAR"] == "2co00 PIC 1e02 GAS 1e03 BUR 1e12 BRE 2co01"


def test_every_slot_has_a_note_of_known_words_and_all_have_room():
    known, longest = frozenset((*words(), *note_words())), 0
    for seed in (1, 2):
        for position in positions(seed, 1909):
            for power in position.to_move:
                written = notes(position, power)
                assert len(written) == len(sheet(position, power))
                found = split(" ".join(written))
                assert known.issuperset(found)
                longest = max(longest, len(found))
    assert 50 < longest < DiplomacyLanguage.longest_notes


def test_the_words_are_words_and_no_others_are():
    assert all(split(word) == [word] for word in note_words())
    assert not set(note_words()) & set(words())
    assert len(set(note_words())) == len(note_words())


def described(unit, note):
    """The words that follow places in a note; the unit's own place comes first."""
    own, *rest = split(note)
    return {unit[2:]: own, **dict(zip(rest[::2], rest[1::2], strict=True))}


def moves(position, unit):
    """Places that the engine lets a unit move to by a step of its own."""
    orders = (re.fullmatch(rf"{unit} - (\S+)", order) for order in position.legal[unit[2:]])
    return {found[1] for found in orders if found and MAP.abuts(unit[0], unit[2:], "-", found[1])}


@cache
def next_to(node):
    """The unit-locations one step from a unit-location, by the engine's map."""
    others = {f"{node[0]} {place.upper()}" for place in MAP.locs}
    return {each for each in others if MAP.is_valid_unit(each) and MAP.abuts(node[0], node[2:], "-", each[2:])}


def steps(unit, place, wanted):
    """Steps to a wanted province by the engine's map, at most four."""
    frontier = {f"{unit[0]} {place}"}
    for taken in range(4):
        if any(node[2:5] in wanted for node in frontier):
            return taken
        frontier = frontier.union(*map(next_to, frontier))
    return 4


@pytest.mark.parametrize("seed", range(3))
def test_movement_phases_are_described_as_the_engine_sees_them(seed):
    for position in positions(seed, 1905):
        if position.kind != "M":
            continue
        units = {power: position.units[power] for power in POWERS}
        holders = {unit[2:5]: power for power, each in units.items() for unit in each}
        entering = Counter(
            (power, area)
            for power, each in units.items()
            for unit in each
            for area in {place[:3] for place in moves(position, unit)}
        )
        for power in position.to_move:
            own = set(position.centers[power])
            for place, note in zip(position.orderable[power], notes(position, power), strict=True):
                unit = next(each for each in units[power] if each[2:] == place)
                found = described(unit, note)
                assert set(found) == {unit[2:], *moves(position, unit)}
                assert list(found.values())[1:] == sorted(list(found.values())[1:])
                for reached, word in found.items():
                    area = reached[:3]
                    holder = holders.get(area)
                    most = max(entering[other, area] for other in POWERS if other != power)
                    assert word == (
                        f"{steps(unit, reached, set(MAP.scs) - own)}{'c' if area in own else ''}"
                        f"{'e' if holder is None else 'o' if holder == power else 'f'}"
                        f"{min(most, 3)}{min(entering[power, area], 3)}"
                    ), (unit, reached)


def test_retreats_builds_and_disbands_have_their_places():
    state = {
        "name": "F1902R",
        "units": {"GERMANY": ["A BUR"], "FRANCE": ["*A BUR"]},
        "retreats": {"FRANCE": {"A BUR": ["PAR", "GAS"]}},
        "centers": {"FRANCE": ["PAR"], "GERMANY": ["MUN"]},
    }
    assert notes(DiplomacyGame.from_state(state, 1910).position, "FRANCE") == ("1f00 PAR 1ce10 GAS 1e10",)
    state = {"name": "W1902A", "units": {"ITALY": ["A ROM"]}, "centers": {"ITALY": ["ROM", "NAP", "VEN"]}}
    building = notes(DiplomacyGame.from_state(state, 1910).position, "ITALY")
    assert building == ("A NAP 3ce01 F NAP 2ce01 A VEN 1ce01 F VEN 1ce01", "")
    state = {"name": "W1902A", "units": {"ITALY": ["A ROM", "A VEN"]}, "centers": {"ITALY": ["ROM"]}}
    assert notes(DiplomacyGame.from_state(state, 1910).position, "ITALY") == ("A ROM 1co01 A VEN 0o01",)
