"""Orders of people: entered in sequence, taken back, replaced, and refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.play_server import entry
from cluster.play_server.entry import IllegalOrderError, NotYoursError, RefusedError, effective
from cluster.play_server.line import Line, Phase
from cluster.play_server.seats import PERSON
from services.environments.diplomacy.rules.orders import check
from tests.unit.cluster.play_server.lines import line_of

FRANCE = "FRANCE"


def in_winter(line: Line, units: Sequence[str], centers: Sequence[str]) -> Line:
    state = {**line.present.state, "name": "W1901A"}
    state["units"] = {**state["units"], FRANCE: list(units)}
    state["centers"] = {**state["centers"], FRANCE: list(centers)}
    return replace(line, phases=(Phase(state),))


@pytest.fixture
def line() -> Line:
    return line_of(FRANCE=PERSON)


@pytest.fixture
def building(line: Line) -> Line:
    return in_winter(line, ["A SPA"], ["BRE", "MAR", "PAR"])


@pytest.fixture
def disbanding(line: Line) -> Line:
    return in_winter(line, ["A SPA", "A BUR", "A GAS", "F MAO"], ["BRE", "MAR"])


def entered(line: Line, *orders: str) -> Line:
    for order in orders:
        line = entry.enter(line, FRANCE, order)
    return line


def counted(line: Line) -> tuple[str, ...]:
    return effective(line.present.position, FRANCE, line.entered.get(FRANCE, ()))


def test_a_later_order_replaces_and_undo_brings_the_earlier_one_back(line: Line) -> None:
    line = entered(line, "A PAR - BUR", "F BRE - MAO", "A PAR - PIC")
    assert set(counted(line)) == {"F BRE - MAO", "A PAR - PIC"}
    line = entry.undo(line, FRANCE)
    assert set(counted(line)) == {"F BRE - MAO", "A PAR - BUR"}
    line = entry.remove(line, FRANCE, "A PAR - BUR")
    assert counted(line) == ("F BRE - MAO",)
    assert counted(entry.clear(line, FRANCE)) == ()
    with pytest.raises(RefusedError, match="no order of FRANCE is entered"):
        entry.undo(entry.clear(line, FRANCE), FRANCE)


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_the_last_order_of_each_unit_counts(picks: list[int]) -> None:
    position = line_of().present.position
    legal = [order for place in position.orderable[FRANCE] for order in position.legal[place]]
    orders = [legal[pick % len(legal)] for pick in picks]
    last = {order[:5]: order for order in orders}
    assert set(effective(position, FRANCE, orders)) == set(last.values())
    assert check(effective(position, FRANCE, orders), position, FRANCE).actions == effective(position, FRANCE, orders)


def test_text_is_read_where_it_can_mean_one_order_alone(line: Line) -> None:
    assert counted(entered(line, " a par-bur ")) == ("A PAR - BUR",)
    for text, reason in (
        ("A PAR - MOS", "the unit cannot do that now"),
        ("A MUN - BUR", "no unit of this power"),
        ("hello", "cannot be read"),
        ("", "give one order"),
        ("A PAR H\nA MAR H", "give one order"),
        ("A PAR B", "cannot do that"),
    ):
        with pytest.raises(IllegalOrderError, match=reason):
            entry.enter(line, FRANCE, text)


def test_orders_for_others_and_after_the_word_are_refused(line: Line) -> None:
    with pytest.raises(NotYoursError, match="GERMANY is played by dumbbot"):
        entry.enter(line, "GERMANY", "A MUN - BUR")
    given_orders = entry.submit(entered(line, "A PAR - BUR"))
    for change in (entry.undo, entry.clear):
        with pytest.raises(RefusedError, match="given already"):
            change(given_orders, FRANCE)
    with pytest.raises(RefusedError, match="given already"):
        entry.submit(given_orders)
    assert counted(entry.recall(given_orders)) == ("A PAR - BUR",)
    with pytest.raises(RefusedError, match="no orders are given"):
        entry.recall(line)
    with pytest.raises(RefusedError, match="F1901M is over; the game is in S1901M now"):
        entry.check_phase(line, "F1901M")


def test_builds_have_a_limit_a_province_each_and_can_be_waived(building: Line) -> None:
    line = entered(building, "F BRE B", "A PAR B")
    assert counted(line) == ("F BRE B", "A PAR B")
    for order in ("A MAR B", "WAIVE"):
        with pytest.raises(RefusedError, match="all 2 are ordered; take one back first"):
            entry.enter(line, FRANCE, order)
    line = entered(line, "A BRE B")
    assert set(counted(line)) == {"A BRE B", "A PAR B"}
    line = entered(entry.remove(line, FRANCE, "A BRE B"), "WAIVE")
    assert set(counted(line)) == {"A PAR B", "WAIVE"}
    line = entry.remove(line, FRANCE, "WAIVE")
    assert counted(line) == ("A PAR B",)
    assert counted(entered(building, "WAIVE", "WAIVE")) == ("WAIVE", "WAIVE")


def test_disbands_have_a_limit(disbanding: Line) -> None:
    line = entered(disbanding, "A BUR D", "F MAO D")
    with pytest.raises(RefusedError, match="all 2 are ordered"):
        entry.enter(line, FRANCE, "A SPA D")
    line = entered(entry.remove(line, FRANCE, "A BUR D"), "A SPA D")
    assert set(counted(line)) == {"F MAO D", "A SPA D"}
    assert entry.orders_of_people(line)[FRANCE] == counted(line)


def test_a_sheet_replaces_all_orders_or_none(line: Line) -> None:
    line = entered(line, "A PAR - PIC")
    sheet = ("A MAR H", "A PAR - BUR", "F BRE - MAO")
    assert counted(entry.enter_sheet(line, FRANCE, sheet)) == sheet
    with pytest.raises(IllegalOrderError):
        entry.enter_sheet(line, FRANCE, (*sheet, "A MUN H"))
    assert counted(line) == ("A PAR - PIC",)


def test_the_number_of_entries_is_bounded(line: Line) -> None:
    for number in range(3 * entry.MOST_ENTERED):
        line = entered(line, ("A PAR - BUR", "A PAR - PIC")[number % 2])
    assert len(line.entered[FRANCE]) <= entry.MOST_ENTERED
    assert counted(line) == ("A PAR - PIC",)


def test_a_seat_that_changes_hands_loses_its_entries(line: Line) -> None:
    line = entry.submit(entered(line, "A PAR - BUR"))
    handed = entry.seat(line, FRANCE, "greedy")
    assert (handed.entered, handed.submitted, handed.people) == ({}, True, ())
    taken = entry.seat(line, "ITALY", PERSON)
    assert (taken.submitted, taken.people_to_move) == (False, (FRANCE, "ITALY"))
    assert taken.entered == line.entered
