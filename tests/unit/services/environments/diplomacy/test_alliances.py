"""Alliances inferred from orders, on hand-made phases and recorded games, and never from orders they group."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.environments.diplomacy.alliances import (
    DECAY,
    NO_ALLY,
    THRESHOLD,
    AllianceLog,
    acts,
    allies,
    updated_standings,
)
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.promises import Promise, Verdict
from tests.paths import RECORDED_GAMES

GAMES = sorted(RECORDED_GAMES.glob("*.json"))

UNITS = {
    "AUSTRIA": ("A TYR",),
    "ENGLAND": ("F NTH", "A LON"),
    "FRANCE": ("A BUR", "A PAR", "F ENG"),
    "GERMANY": ("A MUN", "A RUH"),
    "RUSSIA": ("F STP/SC",),
}
CENTERS = {"ENGLAND": ("LON",), "FRANCE": ("PAR",), "GERMANY": ("MUN", "BER"), "ITALY": ("VEN",)}


def position(phase="S1901M", units=UNITS, centers=CENTERS):
    return Position(phase, units, {}, centers, {}, {}, {})


@pytest.mark.parametrize(
    ("power", "order", "expected"),
    [
        ("FRANCE", "A BUR S A RUH", {"GERMANY": 1}),  # support to hold
        ("FRANCE", "A BUR S A TYR - PIE", {"AUSTRIA": 1}),  # support of a move to an empty province
        ("FRANCE", "A BUR S A TYR - MUN", {"AUSTRIA": 1, "GERMANY": -1}),  # helps one against the other
        ("FRANCE", "A BUR S A PAR - MUN", {"GERMANY": -1}),
        ("FRANCE", "A BUR S A RUH - MUN", {"GERMANY": 1}),  # home again is no attack
        ("FRANCE", "F ENG C A LON - BRE", {"ENGLAND": 1}),
        ("ENGLAND", "F NTH C A LON - NWY", {}),  # its own unit
        ("FRANCE", "A BUR - MUN", {"GERMANY": -1}),  # a unit of theirs on their centre: one act
        ("FRANCE", "A BUR - BER", {"GERMANY": -1}),  # an empty centre of theirs
        ("AUSTRIA", "A TYR - VEN", {"ITALY": -1}),
        ("ENGLAND", "A LON - BEL VIA", {}),
        ("RUSSIA", "F STP/SC H", {}),
        ("FRANCE", "A BUR S A PAR", {}),
        ("RUSSIA", "F STP/SC - GUL", {}),
    ],
)
def test_a_single_order_counts_as_friendly_and_hostile_acts(power, order, expected):
    assert acts(position(), {power: (order,)}) == {(power, other): net for other, net in expected.items()}


def test_other_phases_have_no_acts_and_no_decay():
    orders = {"FRANCE": ("A BUR R MUN",)}
    assert acts(position("S1901R"), orders) == {}
    standings = {("FRANCE", "GERMANY"): 1.0}
    assert updated_standings(standings, position("W1901A"), {"FRANCE": ("A PAR B",)}) == standings


def test_phase_counts_once_for_any_number_of_orders():
    two = {"FRANCE": ("A BUR S A RUH", "F ENG C A LON - BRE", "A PAR S A RUH")}
    assert updated_standings({}, position(), two) == {("FRANCE", "GERMANY"): 1.0, ("FRANCE", "ENGLAND"): 1.0}
    both = {"FRANCE": ("A BUR S A RUH", "A PAR - MUN")}
    assert updated_standings({}, position(), both) == {("FRANCE", "GERMANY"): 0.0}


def test_a_kept_promise_of_peace_counts_as_one_help_and_a_broken_one_as_the_attack():
    def verdict(kind="PEACE", *, kept=True, tested=True):
        return Verdict(Promise("FRANCE", "GERMANY", kind, "", "S1901M"), "S1901M", kept, tested)

    pair = ("FRANCE", "GERMANY")
    assert updated_standings({}, position(), {}, [verdict()]) == {pair: 1.0}
    assert updated_standings({}, position(), {}, [verdict(), verdict("ALLY")]) == {pair: 1.0}
    for nothing in (verdict(tested=False), verdict("DMZ"), verdict("ORDER")):
        assert updated_standings({}, position(), {}, [nothing]) == {}
    attack = next(order for order in ("A BUR - MUN", "A PAR - BUR") if acts(position(), {"FRANCE": (order,)}))
    assert updated_standings({}, position(), {"FRANCE": (attack,)}, [verdict(kept=False)]) == updated_standings(
        {}, position(), {"FRANCE": (attack,)}
    )


def test_standings_are_the_decayed_sum_of_the_acts():
    helps, attacks, nothing = ("A BUR S A RUH",), ("A BUR - MUN",), ("A BUR H",)
    played = [helps, helps, nothing, attacks, helps]
    standings = {}
    for lines in played:
        standings = updated_standings(standings, position(), {"FRANCE": lines})
    expected = sum(DECAY**age * act for age, act in enumerate([1, -1, 0, 1, 1]))
    assert standings == {("FRANCE", "GERMANY"): pytest.approx(expected)}


@pytest.mark.parametrize(
    ("there", "back", "allied"),
    [(THRESHOLD, 0.0, True), (0.5, 0.5, True), (0.99, 0.0, False), (2.0, -1.5, False), (0.0, THRESHOLD, True)],
)
def test_allies_are_mutual_and_need_the_threshold(there, back, allied):
    standings = {("FRANCE", "ITALY"): there, ("ITALY", "FRANCE"): back, ("FRANCE", "TURKEY"): 0.0}
    assert allies(standings, "FRANCE") == (("ITALY",) if allied else ())
    assert allies(standings, "ITALY") == (("FRANCE",) if allied else ())


def followed(played, upto=None):
    """The fact of every power at each phase."""
    log, facts = AllianceLog(), []
    for where, orders in played[:upto]:
        facts.append({power: log.fact(where, power) for power in POWERS})
        log.observe(where, orders)
    return facts


def western_triple():
    """England, France and Germany support one another from 1902 on; a fourth neighbour is attacked."""
    units = {"ENGLAND": ("F NTH",), "FRANCE": ("A BUR",), "GERMANY": ("A MUN", "F HOL"), "AUSTRIA": ("A TYR",)}
    friendly = {
        "ENGLAND": ("F NTH S F HOL",),
        "FRANCE": ("A BUR S A MUN - TYR",),
        "GERMANY": ("A MUN S A BUR", "F HOL S F NTH"),
    }
    return [
        (position(f"{season}{year}{kind}", units, {}), friendly if year > 1901 and kind == "M" else {})
        for year in range(1901, 1911)
        for season, kind in (("S", "M"), ("F", "M"), ("F", "R"), ("W", "A"))
    ]


def test_opening_has_no_alliances_and_later_segments_use_the_opening():
    facts = followed(western_triple())
    assert all(set(row.values()) == {NO_ALLY} for row in facts[:12])
    expected = {"ENGLAND": "GERMANY", "FRANCE": "GERMANY", "GERMANY": "ENGLAND+FRANCE"}
    assert facts[12:] == [{power: expected.get(power, NO_ALLY) for power in POWERS}] * 28


def test_alliances_are_constant_within_a_segment():
    played = western_triple()
    turned = [
        (where, orders if where.year < 1905 else {"FRANCE": ("A BUR - MUN",), "GERMANY": ("A MUN - BUR",)})
        for where, orders in played
    ]
    facts = followed(turned)
    assert {row["FRANCE"] for row in facts[12:32]} == {"GERMANY"}  # 1904 to 1908
    assert {row["FRANCE"] for row in facts[32:]} == {NO_ALLY}
    assert {row["GERMANY"] for row in facts[32:]} == {"ENGLAND"}  # mutual support of three years fades slowly


def test_eliminated_powers_have_no_allies():
    played = western_triple()
    gone = {power: units for power, units in UNITS.items() if power != "GERMANY"}
    after = [(position(where.phase, gone, {}), {}) for where, _ in played[12:]]
    assert {row["FRANCE"] for row in followed([*played[:12], *after])[12:]} == {NO_ALLY}


def random_game(seed, until):
    """A whole game of random legal orders: positions with the orders given there."""
    rng, game, played = random.Random(seed), DiplomacyGame(until), []
    while not game.is_done:
        where = game.position
        for power in where.to_move:
            game.set_orders(power, [rng.choice(where.legal[place]) for place in where.orderable[power]])
        played.append((where, dict(game.orders)))
        game.process()
    return played


@pytest.fixture(scope="module")
def random_games():
    return [random_game(seed, 1909) for seed in range(3)]


def segment_starts(played):
    return [0, *(i for i, (where, _) in enumerate(played) if where.phase in ("S1904M", "S1909M"))]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_orders_of_the_same_or_later_segments_do_not_change_the_fact(random_games, data):
    played = random_games[data.draw(st.integers(0, len(random_games) - 1))]
    starts = segment_starts(played)
    start = data.draw(st.sampled_from(starts))
    rng = data.draw(st.randoms(use_true_random=False))
    other = [
        (where, {power: [rng.choice(where.legal[place]) for place in where.orderable[power]] for power in POWERS})
        for where, _ in played[start:]
    ]
    end = min([i for i in starts if i > start], default=len(played))
    assert followed([*played[:start], *other])[:end] == followed(played)[:end]


def test_random_games_have_alliances(random_games):
    # Without alliances the property tests of this file would compare nothing.
    assert {fact for played in random_games for row in followed(played)[-3:] for fact in row.values()} - {NO_ALLY}


@settings(max_examples=15, deadline=None)
@given(names=st.permutations(POWERS), index=st.integers(0, 2))
def test_allies_follow_a_relabelling_of_powers(random_games, names, index):
    name_of = dict(zip(POWERS, names, strict=True))

    def relabelled(by_power):
        return {name_of[power]: value for power, value in by_power.items()}

    def relabelled_fact(fact):
        return fact if fact == NO_ALLY else "+".join(sorted(name_of[power] for power in fact.split("+")))

    played = random_games[index]
    renamed = [
        (position(where.phase, relabelled(where.units), relabelled(where.centers)), relabelled(orders))
        for where, orders in played
    ]
    for before, after in zip(followed(played), followed(renamed), strict=True):
        assert after == {name_of[power]: relabelled_fact(fact) for power, fact in before.items()}


@pytest.mark.skipif(not GAMES, reason="the recorded games (../shared/data/diplomacy_games) are absent")
def test_recorded_games_have_mutual_alliances():
    allied = Counter()
    for path in GAMES:
        log = AllianceLog()
        for phase in json.loads(path.read_text())["phases"][:-1]:
            state = phase["state"]
            units = {power: tuple(u for u in state["units"][power] if u[0] != "*") for power in POWERS}
            where = position(phase["name"], units, {power: tuple(state["centers"][power]) for power in POWERS})
            facts = {power: log.fact(where, power) for power in POWERS}
            for power, fact in facts.items():
                for other in () if fact == NO_ALLY else fact.split("+"):
                    assert power in facts[other].split("+")
            if phase["name"] in ("S1901M", "S1904M", "S1909M"):
                living = [power for power in POWERS if units[power]]
                allied[phase["name"], "allied"] += sum(facts[power] != NO_ALLY for power in living)
                allied[phase["name"], "seats"] += len(living)
            log.observe(where, {power: orders or () for power, orders in phase["orders"].items()})
    assert allied["S1901M", "allied"] == 0
    for start in ("S1904M", "S1909M"):
        assert 0.1 < allied[start, "allied"] / allied[start, "seats"] < 0.5


def test_orders_are_those_of_the_current_phase():
    game = DiplomacyGame(1901)
    game.set_orders("FRANCE", ["A PAR - BUR", "A MAR - LON", "A MAR S A PAR - BUR"])
    assert game.orders == {"FRANCE": ("A PAR - BUR", "A MAR S A PAR - BUR")}
    game.process()
    assert game.orders == {}
