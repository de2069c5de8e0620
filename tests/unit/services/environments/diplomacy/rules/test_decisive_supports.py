"""Which supports decide: hand-made cases, and the engine's own answer when the supporter holds instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.rules.decisive_supports import decisive_supports
from services.environments.diplomacy.rules.movement import Movement, read_movement

Orders = Mapping[str, tuple[str, ...]]


def stands(game: DiplomacyGame) -> tuple[object, object]:
    return game.position.units, game.position.dislodged


def adjudicated(state: Mapping[str, object], orders: Orders) -> DiplomacyGame:
    game = DiplomacyGame.from_state(state, 1999)
    for power, own in orders.items():
        assert not [each for each in game.set_orders(power, own) if each.reason != "missing"]
    game.process()
    return game


def movement_of(game: DiplomacyGame, orders: Orders) -> tuple[Movement, DiplomacyGame]:
    after = adjudicated(game.state(), orders)
    return read_movement(game.position.units, orders, after.position.past[-1].results), after


def position(units: Mapping[str, list[str]]) -> DiplomacyGame:
    state = {**DiplomacyGame(1999).state(), "name": "F1902M", "units": units}
    return DiplomacyGame.from_state(state, 1999)


CASES = [
    # An attack on a unit that holds, by two against one.
    ({"FRANCE": ["A PAR", "A PIC"], "GERMANY": ["A BUR"]}, {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR")}, {"PIC"}),
    # Into an empty province that no other power enters.
    ({"FRANCE": ["A PAR", "A PIC"]}, {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR")}, set()),
    # Three against one: each support alone could be missing.
    (
        {"FRANCE": ["A PAR", "A PIC", "A GAS"], "GERMANY": ["A BUR"]},
        {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR", "A GAS S A PAR - BUR")},
        set(),
    ),
    # A supported unit that two attack together.
    (
        {"FRANCE": ["A BUR", "A PAR"], "GERMANY": ["A MUN", "A RUH"]},
        {"FRANCE": ("A BUR H", "A PAR S A BUR"), "GERMANY": ("A MUN - BUR", "A RUH S A MUN - BUR")},
        {"PAR"},
    ),
    # A supported unit that one attacks: it would have stayed anyway.
    (
        {"FRANCE": ["A BUR", "A PAR"], "GERMANY": ["A MUN"]},
        {"FRANCE": ("A BUR H", "A PAR S A BUR"), "GERMANY": ("A MUN - BUR",)},
        set(),
    ),
    # Two equal moves keep one another out, and each support does.
    (
        {"FRANCE": ["A PAR", "A PIC"], "GERMANY": ["A MUN", "A RUH"]},
        {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR"), "GERMANY": ("A MUN - BUR", "A RUH S A MUN - BUR")},
        {"PIC", "RUH"},
    ),
    # Head to head: without its support the unit would have been dislodged.
    (
        {"FRANCE": ["A PAR", "A PIC"], "GERMANY": ["A BUR", "A GAS"]},
        {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR"), "GERMANY": ("A BUR - PAR", "A GAS S A BUR - PAR")},
        {"PIC", "GAS"},
    ),
    # A rival without a convoy never sets out.
    (
        {"FRANCE": ["A PIC", "A BUR"], "ENGLAND": ["A LON", "F NTH"]},
        {"FRANCE": ("A PIC - BEL", "A BUR S A PIC - BEL"), "ENGLAND": ("A LON - BEL VIA", "F NTH H")},
        set(),
    ),
    # A power does not support an attack on its own unit.
    (
        {"FRANCE": ["A BEL", "A PIC"], "GERMANY": ["A RUH", "A HOL"]},
        {"FRANCE": ("A BEL H", "A PIC S A RUH - BEL"), "GERMANY": ("A RUH - BEL", "A HOL S A RUH - BEL")},
        {"HOL"},
    ),
    # A support that is cut counts for nothing.
    (
        {"FRANCE": ["A PAR", "A PIC"], "GERMANY": ["A BUR"], "ENGLAND": ["F BEL"]},
        {"FRANCE": ("A PAR - BUR", "A PIC S A PAR - BUR"), "ENGLAND": ("F BEL - PIC",)},
        set(),
    ),
]


@pytest.mark.parametrize(("units", "orders", "decisive"), CASES)
def test_supports_decide_where_they_make_the_difference(
    units: Mapping[str, list[str]], orders: Orders, decisive: set[str]
) -> None:
    game = position(units)
    movement, after = movement_of(game, orders)
    assert {support.place for support in decisive_supports(movement)} == decisive
    for power, own in orders.items():
        for order in own:
            if " S " in order:
                without = {**orders, power: tuple(each for each in own if each != order)}
                changed = stands(adjudicated(game.state(), without)) != stands(after)
                assert changed == (order[2:5] in decisive)


@pytest.mark.parametrize("bot", ["dumbbot", "random"])
def test_the_rule_agrees_with_the_engine_in_whole_games(bot: str) -> None:
    player, agreed = make_bot(bot), Counter[bool]()
    game = DiplomacyGame(1906)
    while not game.is_done:
        phase = game.position
        for power in phase.to_move:
            game.set_orders(power, player.actions(phase, power, derive_seed(5, phase.phase, power)))
        orders = dict(game.orders)
        if phase.kind == "M":
            movement, after = movement_of(game, orders)
            decisive = {support.place for support in decisive_supports(movement)}
            for support in (order for order in movement.orders.values() if order.kind == "S"):
                own = tuple(order for order in orders[support.power] if order[2:5] != support.place)
                changed = stands(adjudicated(game.state(), {**orders, support.power: own})) != stands(after)
                agreed[changed == (support.place in decisive)] += 1
        game.process()
    assert agreed[True] >= 20
    assert agreed[False] <= 0.005 * agreed.total()
