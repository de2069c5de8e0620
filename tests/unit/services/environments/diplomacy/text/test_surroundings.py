"""What a detailed prompt says about the places around a unit, beside the engine's own rules."""

import re
from collections import Counter
from functools import cache

import pytest
from diplomacy import Map

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.notation import render, split, words
from services.environments.diplomacy.text.surroundings import surrounding_words, surroundings
from tests.unit.services.environments.diplomacy.text.test_notation import positions

MAP = Map()


def of_opening(power):
    return surroundings(DiplomacyGame(1901).position, power)


def test_the_opening_renders_as_documented():
    assert of_opening("FRANCE").split(", ")[1] == "A PAR 2co00 BRE 2co01 BUR 1e12 GAS 1e03 PIC 1e02"


def test_a_detailed_prompt_begins_with_the_plain_one():
    for position in positions(4, 1903):
        for power in POWERS:
            plain, detailed = (render(position, power, detailed=each) for each in (False, True))
            assert split(detailed)[: len(split(plain)) - 1] == split(plain)[:-1]
            assert detailed.endswith("ORDERS")


def test_whole_games_use_known_words_and_stay_below_the_longest_prompt():
    known, longest = frozenset(words(detailed=True)), 0
    for seed in (1, 2):
        for position in positions(seed, 1909):
            for power in POWERS:
                prompt = split(render(position, power, detailed=True))
                assert known.issuperset(prompt)
                longest = max(longest, len(prompt))
    assert 150 < longest < DiplomacyLanguage.longest_detailed_prompt


def test_the_words_are_words_and_no_others_are():
    assert all(split(word) == [word] for word in surrounding_words())
    assert not set(surrounding_words()) & set(words())
    assert len(words(detailed=True)) == len(words()) + len(surrounding_words())


def described(position, power):
    """The words that follow places, by unit and by place, in a detailed prompt."""
    found, unit = {}, ""
    for word, after in zip(*(split(surroundings(position, power))[skip:] for skip in (0, 1)), strict=False):
        if " " in word:
            unit, found[word] = word, {word[2:]: after}
        elif not word[0].isdecimal():
            found[unit][word] = after
    return found


def moves(position, unit):
    """Places that the engine lets a unit move to on its own."""
    return [order.split(" - ")[1] for order in position.legal[unit[2:]] if re.fullmatch(rf"{unit} - \S+", order)]


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
        # Convoyed moves are in the legal orders too, with the same words; the map says which are steps.
        entering = Counter(
            (power, area)
            for power, each in units.items()
            for unit in each
            for area in {place[:3] for place in moves(position, unit) if MAP.abuts(unit[0], unit[2:], "-", place)}
        )
        for power in POWERS:
            found = described(position, power)
            assert tuple(found) == units[power]
            for unit, places in found.items():
                reached = {place for place in moves(position, unit) if MAP.abuts(unit[0], unit[2:], "-", place)}
                assert set(places) == {unit[2:], *reached}
                own = set(position.centers[power])
                for place, word in places.items():
                    area = place[:3]
                    holder = holders.get(area)
                    most = max(entering[other, area] for other in POWERS if other != power)
                    assert word == (
                        f"{steps(unit, place, set(MAP.scs) - own)}{'c' if area in own else ''}"
                        f"{'e' if holder is None else 'o' if holder == power else 'f'}"
                        f"{min(most, 3)}{min(entering[power, area], 3)}"
                    ), (unit, place)


def test_retreats_builds_and_disbands_have_their_places():
    state = {
        "name": "F1902R",
        "units": {"GERMANY": ["A BUR"], "FRANCE": ["*A BUR"]},
        "retreats": {"FRANCE": {"A BUR": ["PAR", "GAS"]}},
        "centers": {"FRANCE": ["PAR"], "GERMANY": ["MUN"]},
    }
    retreating = described(DiplomacyGame.from_state(state, 1910).position, "FRANCE")
    assert retreating == {"A BUR": {"BUR": "1f00", "GAS": "1e10", "PAR": "1ce10"}}
    state = {"name": "W1902A", "units": {"ITALY": ["A ROM"]}, "centers": {"ITALY": ["ROM", "NAP", "VEN"]}}
    building = described(DiplomacyGame.from_state(state, 1910).position, "ITALY")
    assert building == {
        "A NAP": {"NAP": "3ce01"},
        "F NAP": {"NAP": "2ce01"},
        "A VEN": {"VEN": "1ce01"},
        "F VEN": {"VEN": "1ce01"},
    }
    state["centers"] = {}
    assert list(described(DiplomacyGame.from_state(state, 1910).position, "ITALY")) == ["A ROM"]
    assert surroundings(DiplomacyGame.from_state(state, 1910).position, "TURKEY") == ""
