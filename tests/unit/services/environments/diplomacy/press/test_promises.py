"""Which orders keep a promise, and what a game's promises add up to."""

from __future__ import annotations

import random

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.ledger import Account, Ledger
from services.environments.diplomacy.press.promises import Promise, at_peace, verdict
from tests.unit.services.environments.diplomacy.press.games import movement_positions, random_orders

UNITS = {"FRANCE": ["A BUR", "A PAR", "F ENG"], "GERMANY": ["A MUN", "A RUH"], "ENGLAND": ["F LON", "A YOR"],
         "RUSSIA": ["F BAR", "F NWY"]}  # fmt: skip
CENTERS = {"FRANCE": ["PAR"], "GERMANY": ["MUN", "BER"], "ENGLAND": ["LON"], "RUSSIA": ["STP"]}
STATE = {"name": "S1903M", "units": UNITS, "centers": CENTERS, "retreats": {}}


def position():
    return DiplomacyGame.from_state({**DiplomacyGame(1901).state(), **STATE}, 1905).position


def judged(kind, about, *orders, giver="FRANCE", partner="GERMANY"):
    found = verdict(Promise(giver, partner, kind, about, "S1903M"), position(), orders)
    return found.kept


@pytest.mark.parametrize(
    ("kind", "about", "orders", "kept"),
    [
        ("PEACE", "", (), True),
        ("PEACE", "", ("A BUR H", "A PAR - PIC", "F ENG - BEL"), True),
        ("PEACE", "", ("A BUR - MUN",), False),
        ("PEACE", "", ("A BUR - RUH",), False),  # where a unit of theirs stands
        ("PEACE", "", ("A PAR S A BUR - MUN",), False),
        ("PEACE", "", ("A BUR S A RUH - MUN",), True),  # their own unit goes home
        ("PEACE", "", ("F ENG - LON",), True),  # another power's
        ("ALLY", "ENGLAND", ("F ENG - LON",), True),
        ("ALLY", "ENGLAND", ("A BUR - MUN",), False),
        ("ALLY", "ENGLAND", ("F ENG S F LON",), False),
        ("ALLY", "ENGLAND", ("A BUR S A RUH",), True),
        ("DMZ", "BEL", ("A BUR - BEL",), False),
        ("DMZ", "BEL", ("A BUR S A RUH - BEL",), True),  # it is theirs to keep out
        ("DMZ", "BEL", ("F ENG - NTH",), True),
        ("ORDER", "A BUR - BEL", ("A BUR - BEL", "A PAR H"), True),
        ("ORDER", "A BUR - BEL", ("A BUR - MAR",), False),
        ("ORDER", "A BUR - BEL", ("A PAR - BUR",), False),  # a unit without an order holds
        ("ORDER", "A BUR H", (), True),
    ],
)
def test_orders_keep_a_promise_or_break_it(kind, about, orders, kept):
    assert judged(kind, about, *orders) is kept


def test_a_promised_support_may_be_given_with_or_without_the_coast():
    legal = position().legal["NWY"]
    assert {"F NWY S F BAR - STP", "F NWY S F BAR - STP/NC"} <= set(legal)
    assert judged("ORDER", "F NWY S F BAR - STP", "F NWY S F BAR - STP/NC", giver="RUSSIA")
    assert not judged("ORDER", "F NWY S F BAR - STP", "F NWY S F BAR", giver="RUSSIA")


def test_a_vote_for_a_draw_keeps_its_promise():
    promise = Promise("FRANCE", "GERMANY", "DRAW", "", "S1903M")
    assert verdict(promise, position(), (), wants_draw=True).kept
    assert not verdict(promise, position(), ()).kept


def test_only_promises_that_could_have_been_broken_are_tested():
    far = verdict(Promise("RUSSIA", "FRANCE", "PEACE", "", "S1903M"), position(), ())
    near = verdict(Promise("FRANCE", "GERMANY", "PEACE", "", "S1903M"), position(), ())
    assert (far.kept, far.tested) == (True, False)
    assert (near.kept, near.tested) == (True, True)


def test_peace_lasts_to_the_end_of_the_year_and_orders_for_one_phase():
    for kind in ("PEACE", "ALLY", "DMZ"):
        promise = Promise("FRANCE", "GERMANY", kind, "", "S1903M")
        assert [promise.holds_in(phase) for phase in ("S1903M", "F1903M", "S1904M")] == [True, True, False]
    for kind in ("ORDER", "DRAW"):
        promise = Promise("FRANCE", "GERMANY", kind, "", "S1903M")
        assert [promise.holds_in(phase) for phase in ("S1903M", "F1903M")] == [True, False]


def test_a_ledger_counts_a_peace_in_each_phase_until_it_is_broken():
    ledger, here = Ledger(), position()
    peace = Promise("FRANCE", "GERMANY", "PEACE", "", "S1903M")
    ledger.settle(here, [peace], {})
    assert ledger.holding("F1903M") == (peace,)
    assert ledger.holding("S1904M") == ()
    fall = DiplomacyGame.from_state({**DiplomacyGame(1901).state(), **STATE, "name": "F1903M"}, 1905).position
    again = Promise("FRANCE", "GERMANY", "PEACE", "", "F1903M")  # agreed once more: it is one promise
    [broken] = ledger.settle(fall, [again], {"FRANCE": ("A BUR - MUN",)})
    assert not broken.kept
    assert ledger.accounts == {("FRANCE", "GERMANY"): Account(1, 1)}
    assert ledger.accounts["FRANCE", "GERMANY"].honesty == 0.5
    assert ledger.holding("F1903M") == ()
    assert Account().honesty is None


@pytest.mark.parametrize("kind", ["PEACE", "ALLY", "DMZ"])
def test_an_attack_that_is_only_announced_breaks_the_peace_and_one_that_was_asked_for_does_not(kind):
    about = {"PEACE": "", "ALLY": "RUSSIA", "DMZ": "MUN"}[kind]
    agreed = Promise("FRANCE", "GERMANY", kind, about, "S1903M")
    for is_asked_for in (True, False):
        order = Promise("FRANCE", "GERMANY", "ORDER", "A BUR - MUN", "S1903M", is_asked_for=is_asked_for)
        ledger = Ledger()
        found = {each.promise.kind: each.kept for each in ledger.settle(position(), [agreed, order],
                 {"FRANCE": ("A BUR - MUN",)})}  # fmt: skip
        assert found == {kind: is_asked_for, "ORDER": True}
        assert ledger.accounts == {("FRANCE", "GERMANY"): Account(1 + is_asked_for, 1 - is_asked_for)}


def test_powers_at_peace_are_those_of_both_sides_of_a_promise():
    promises = [
        Promise("FRANCE", "GERMANY", "PEACE", "", "S1903M"),
        Promise("ITALY", "FRANCE", "ALLY", "RUSSIA", "S1903M"),
        Promise("FRANCE", "ENGLAND", "DMZ", "ENG", "S1903M"),
    ]
    assert at_peace(promises, "FRANCE") == ("GERMANY", "ITALY")
    assert at_peace(promises, "RUSSIA") == at_peace(promises, "ENGLAND") == ()


@pytest.mark.parametrize("seed", range(3))
def test_a_promise_is_broken_only_where_some_legal_order_breaks_it(seed):
    rng, broken = random.Random(seed), 0
    for here in movement_positions(50 + seed, 8):
        orders = {power: random_orders(here, power, rng) for power in POWERS}
        for giver in POWERS:
            for partner in POWERS:
                if giver == partner:
                    continue
                given = [Promise(giver, partner, "ORDER", order, here.phase) for order in orders[giver]]
                assert all(verdict(each, here, orders[giver]).kept for each in given)
                for kind, about in (("PEACE", ""), ("ALLY", rng.choice(POWERS)), ("DMZ", "MUN")):
                    found = verdict(Promise(giver, partner, kind, about, here.phase), here, orders[giver])
                    assert found.kept or found.tested
                    broken += not found.kept
                    assert verdict(found.promise, here, ()).kept  # units that hold break nothing
    assert broken > 10


def test_a_broken_peace_frees_the_partner_as_well():
    ledger, here = Ledger(), position()
    both = [Promise("FRANCE", "GERMANY", "PEACE", "", "S1903M"), Promise("GERMANY", "FRANCE", "PEACE", "", "S1903M")]
    ledger.settle(here, both, {"FRANCE": ("A BUR - MUN",)})
    assert ledger.holding("F1903M") == ()
    assert ledger.accounts == {("FRANCE", "GERMANY"): Account(0, 1), ("GERMANY", "FRANCE"): Account(1, 0)}


def test_an_order_that_a_power_asked_for_breaks_no_other_promise_to_it():
    ledger, here = Ledger(), position()
    promises = [
        Promise("FRANCE", "GERMANY", "PEACE", "", "S1903M"),
        Promise("FRANCE", "GERMANY", "ALLY", "ENGLAND", "S1903M"),
        Promise("FRANCE", "GERMANY", "ORDER", "A BUR - MUN", "S1903M", is_asked_for=True),
    ]
    verdicts = ledger.settle(here, promises, {"FRANCE": ("A BUR - MUN",)})
    assert all(each.kept for each in verdicts)
    assert ledger.accounts["FRANCE", "GERMANY"] == Account(2, 0)  # peace and alliance are one promise not to attack
    unasked = Ledger()
    unasked.settle(here, promises[:2], {"FRANCE": ("A BUR - MUN",)})
    assert unasked.accounts["FRANCE", "GERMANY"] == Account(0, 1)
