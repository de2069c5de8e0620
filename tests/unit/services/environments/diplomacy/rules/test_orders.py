"""Order sheets: slots and claims, strict reading, repairs."""

import random

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.rules.orders import Defect, check, parse, sheet
from tests.unit.services.environments.diplomacy.sheets import format_sheet


def board(phase, units, centers=None, retreats=None):
    state = {"name": phase, "units": units, "centers": centers or {}}
    if retreats:
        state["retreats"] = retreats
        for power, dislodged in retreats.items():
            state["units"].setdefault(power, []).extend(f"*{unit}" for unit in dislodged)
    return DiplomacyGame.from_state(state, 1910).position


def defects(parsed):
    return [(defect.text, defect.reason) for defect in parsed.defects]


OPENING = DiplomacyGame(1901).position
BUILDS = board("W1902A", {"RUSSIA": ["A UKR", "A WAR"]}, {"RUSSIA": ["MOS", "SEV", "STP", "WAR", "RUM"]})
FEW_HOMES = board("W1902A", {"RUSSIA": ["A MOS", "A WAR"]}, {"RUSSIA": ["MOS", "RUM", "STP", "WAR", "SWE"]})
DISBANDS = board("W1902A", {"RUSSIA": ["A UKR", "F STP/NC", "A WAR"]}, {"RUSSIA": ["MOS"]})
FLEET = board("S1902M", {"RUSSIA": ["F STP/SC"]})
RETREATS = board(
    "F1902R",
    {"GERMANY": ["A BUR", "A PIC"]},
    retreats={"FRANCE": {"A BUR": ["GAS", "MAR"], "F SPA/SC": ["WES", "POR"]}},
)


def test_movement_sheet_has_one_slot_per_unit():
    slots = sheet(OPENING, "RUSSIA")
    assert [slot.alternatives[0] for slot in slots] == ["A MOS - LVN", "A WAR - GAL", "F SEV - ARM", "F STP/SC - BOT"]
    assert all(claim is None for slot in slots for claim in slot.claims)
    assert all(list(slot.alternatives) == sorted(set(slot.alternatives)) for slot in slots)


def test_build_sheet_claims_provinces_and_allows_waivers():
    slots = sheet(BUILDS, "RUSSIA")
    assert len(slots) == 3
    claims = dict(zip(slots[0].alternatives, slots[0].claims, strict=True))
    assert claims == {
        "A MOS B": "MOS",
        "A SEV B": "SEV",
        "A STP B": "STP",
        "F SEV B": "SEV",
        "F STP/NC B": "STP",
        "F STP/SC B": "STP",
        "WAIVE": None,
    }


def test_builds_are_limited_by_free_homes():
    assert FEW_HOMES.adjustments["RUSSIA"] == 1  # three more centres than units, but only one free home
    (slot,) = sheet(FEW_HOMES, "RUSSIA")
    assert slot.alternatives == ("A STP B", "F STP/NC B", "F STP/SC B", "WAIVE")


def test_disband_sheet_claims_units():
    slots = sheet(DISBANDS, "RUSSIA")
    assert len(slots) == 2
    assert slots[0].alternatives == ("A UKR D", "A WAR D", "F STP/NC D")
    assert slots[0].claims == ("A UKR", "A WAR", "F STP/NC")


def test_retreat_sheet_has_one_slot_per_dislodged_unit():
    slots = sheet(RETREATS, "FRANCE")
    assert [slot.alternatives for slot in slots] == [
        ("A BUR D", "A BUR R GAS", "A BUR R MAR"),
        ("F SPA/SC D", "F SPA/SC R POR", "F SPA/SC R WES"),
    ]


def test_power_without_decisions_has_an_empty_sheet():
    assert sheet(RETREATS, "GERMANY") == ()
    assert sheet(BUILDS, "FRANCE") == ()
    assert defects(parse("A BUR H\n", RETREATS, "GERMANY")) == [("A BUR H", "not_own_unit")]


@pytest.mark.parametrize("position", [OPENING, BUILDS, FEW_HOMES, DISBANDS, RETREATS])
@pytest.mark.parametrize("seed", range(5))
def test_any_choice_that_respects_the_claims_parses_without_defects(position, seed):
    rng = random.Random(seed)
    for power in position.to_move:
        orders, used = [], set()
        for slot in sheet(position, power):
            free = [i for i, claim in enumerate(slot.claims) if claim is None or claim not in used]
            choice = rng.choice(free)
            orders.append(slot.alternatives[choice])
            used.add(slot.claims[choice])
        parsed = parse(format_sheet(orders), position, power)
        assert (parsed.actions, parsed.defects) == (tuple(orders), ())


@pytest.mark.parametrize(
    ("position", "power", "text", "expected"),
    [
        (OPENING, "FRANCE", "A PAR H\nA MAR H\n", [("F BRE", "missing")]),
        (OPENING, "FRANCE", "A PAR H\n\nA MAR H\nF BRE H", []),
        (OPENING, "FRANCE", "A PAR H\nA MAR H\nF BRE - BUR\n", [("F BRE - BUR", "illegal")]),
        (OPENING, "FRANCE", "A PAR H\nA MAR H\nF BRE\n", [("F BRE", "unreadable")]),
        (OPENING, "FRANCE", "A PAR H\nA MAR H\nf bre h\nF BRE H", [("f bre h", "unreadable")]),
        (OPENING, "FRANCE", "A PAR H\nA MAR H\nF BRE H\nA PAR - BUR\n", [("A PAR - BUR", "duplicate")]),
        (OPENING, "FRANCE", "A PAR H\nA MAR H\nF BRE H\nA BER H\n", [("A BER H", "not_own_unit")]),
        (OPENING, "FRANCE", "F PAR - GAS\nA MAR H\nF BRE H\nA PAR H", [("F PAR - GAS", "not_own_unit")]),
        (FLEET, "RUSSIA", "F STP - BOT\n", [("F STP - BOT", "not_own_unit"), ("F STP/SC", "missing")]),
        (RETREATS, "FRANCE", "A BUR R PAR\nF SPA/SC D\n", [("A BUR R PAR", "illegal")]),
        (RETREATS, "FRANCE", "F SPA/SC D\n", [("A BUR", "missing")]),
        (BUILDS, "RUSSIA", "A MOS B\n", []),
        (BUILDS, "RUSSIA", "A STP B\nF STP/NC B\nWAIVE\n", [("F STP/NC B", "duplicate")]),
        (BUILDS, "RUSSIA", "WAIVE\nWAIVE\nWAIVE\nA MOS B\n", [("A MOS B", "too_many")]),
        (BUILDS, "RUSSIA", "A WAR B\nF MOS B", [("A WAR B", "illegal"), ("F MOS B", "illegal")]),
        (DISBANDS, "RUSSIA", "A WAR D\n", [("D", "missing")]),
        (DISBANDS, "RUSSIA", "A WAR D\nA WAR D\nA UKR D\n", [("A WAR D", "duplicate")]),
        (DISBANDS, "RUSSIA", "A WAR D\nA UKR D\nF STP/NC D\n", [("F STP/NC D", "too_many")]),
        (DISBANDS, "RUSSIA", "A MUN D\nA WAR D\nA UKR D\n", [("A MUN D", "not_own_unit")]),
        (DISBANDS, "RUSSIA", "A WAR D\nWAIVE\n", [("WAIVE", "illegal"), ("D", "missing")]),
    ],
)  # fmt: skip
def test_defective_lines_are_reported_with_reasons(position, power, text, expected):
    parsed = parse(text, position, power)
    assert defects(parsed) == expected
    assert all(order in text for order in parsed.actions)
    assert check(parsed.actions, position, power).actions == parsed.actions


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("a par - bur", "A PAR - BUR"),
        (" A  PAR ->BUR.", "A PAR - BUR"),
        ("A PAR-BUR", "A PAR - BUR"),
        ("A MAR S A PAR - BUR;", "A MAR S A PAR - BUR"),
        ("F STP - BOT", "F STP/SC - BOT"),
        ("F STP H", "F STP/SC H"),
    ],
)
def test_unambiguous_line_is_repaired_and_recorded(line, meant):
    power = "RUSSIA" if "STP" in line else "FRANCE"
    parsed = parse(line, OPENING, power, repair=True)
    assert parsed.actions == (meant,)
    assert parsed.defects[0] == Defect(line, "repaired")
    assert parse(line, OPENING, power).actions == ()


def test_ambiguous_line_is_not_repaired():
    position = board("S1902M", {"FRANCE": ["F MAO"]})
    assert defects(parse("F MAO - SPA", position, "FRANCE", repair=True)) == [("F MAO - SPA", "illegal")]


def test_missing_via_is_added_only_without_a_land_route():
    position = board("S1902M", {"ENGLAND": ["A LON", "F NTH"]})
    parsed = parse("A LON - NWY\nF NTH C A LON - NWY\n", position, "ENGLAND", repair=True)
    assert parsed.actions == ("A LON - NWY VIA", "F NTH C A LON - NWY")
    assert defects(parsed) == [("A LON - NWY", "repaired")]
