"""Diplomacy by numbered choices: every legal order has a number, and what is chosen is what is played."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import sheet
from services.environments.diplomacy.unit_choices import numbering, observation
from services.environments.diplomacy.unit_choices.task import UnitChoices, UnitChoicesGame


def played(seed: int, until_year: int = 1906) -> Iterator[Position]:
    """A game of random orders, in which convoys become possible."""
    game, draw = DiplomacyGame(until_year), random.Random(seed)
    while not game.is_done:
        orders = {power: tuple(draw.choice(slot.alternatives) for slot in sheet(game.position, power))
                      for power in game.to_act()}  # fmt: skip
        yield game.position
        game.step(orders)


def test_every_legal_order_has_a_number_of_its_own() -> None:
    kinds = set()
    for position in itertools.chain(*map(played, range(4))):
        for power in position.to_move:
            for slot in sheet(position, power):
                found = numbering.numbered(slot.alternatives, adjusts=position.kind == "A")
                assert sorted(found.values()) == sorted(slot.alternatives)
                assert all(0 <= number < numbering.count() for number in found)
                kinds |= {(position.kind, " C " in order or "VIA" in order) for order in found.values()}
    assert {("M", False), ("M", True), ("R", False), ("A", False)} <= kinds


def test_a_number_means_the_same_wherever_a_unit_stands() -> None:
    first = numbering.numbered(("A PAR H", "A PAR - BRE", "A PAR - BUR"), adjusts=False)
    other = numbering.numbered(("A MUN H", "A MUN - BER", "A MUN - BOH"), adjusts=False)
    assert list(first) == list(other)
    supports = numbering.numbered(("A PAR S A MAR - BUR", "A PAR S A MAR"), adjusts=False)
    assert len(set(supports) | set(first)) == 5


def test_what_is_chosen_is_what_is_played_and_what_is_gained_is_earned() -> None:
    game, draw = UnitChoices("diplomacy", None, 1903).make(), random.Random(4)
    assert isinstance(game, UnitChoicesGame)
    game.reset(0)
    earned = dict.fromkeys(POWERS, 0.0)
    chosen: dict[str, list[str]] = {power: [] for power in POWERS}
    phase, checked = game.position.phase, 0
    while game.to_act:
        actions = {}
        for seat in game.to_act:
            orders = game.orders(seat)
            assert set(np.flatnonzero(game.legal(seat))) == set(orders)
            actions[seat] = draw.choice(sorted(orders))
            chosen[seat].append(orders[actions[seat]])
        for seat, reward in game.step(actions).items():
            earned[seat] += reward
        if game.position.phase != phase:
            (past,) = [each for each in game.position.past if each.phase == phase] or [None]
            if past is not None and phase.endswith("M"):
                for power in POWERS:
                    given = {order.replace(" VIA", "") for order in past.orders.get(power, ())}
                    wanted = {order.replace(" VIA", "") for order in chosen[power] if not order.endswith(" H")}
                    assert wanted <= given
                checked += 1
            phase, chosen = game.position.phase, {power: [] for power in POWERS}
    assert checked >= 4
    start = {power: 4 if power == "RUSSIA" else 3 for power in POWERS}
    assert {power: start[power] + earned[power] for power in POWERS} == {
        power: len(game.position.centers[power]) for power in POWERS
    }


def test_one_power_learns_among_bots_and_all_take_turns() -> None:
    game = UnitChoices("diplomacy", "random", 1902).make()
    learned = []
    for seed in range(len(POWERS)):
        facts = game.reset(seed)
        assert game.to_act == (facts["country"],)
        learned.append(facts["country"])
    assert sorted(map(str, learned)) == sorted(POWERS)


def test_equal_seeds_and_choices_give_equal_games() -> None:
    ends = []
    for _ in range(2):
        game, draw = UnitChoices("diplomacy", "random", 1903).make(), random.Random(1)
        game.reset(5)
        while game.to_act:
            game.step({seat: draw.choice(sorted(game.orders(seat))) for seat in game.to_act})
        assert isinstance(game, UnitChoicesGame)
        ends.append(game.position.state())
    assert ends[0] == ends[1]


def test_an_observation_counts_powers_from_the_one_that_decides() -> None:
    position = DiplomacyGame(1905).position
    own = observation.observed(position, "FRANCE", "A PAR", ())
    assert own.shape == (observation.size(),)
    assert np.abs(own).max() == 1.0
    other = observation.observed(position, "FRANCE", "A MAR", ("A PAR",))
    assert (own != other).sum() == 3  # where the unit stands, twice, and that Paris has its order
    assert not np.array_equal(own, observation.observed(position, "TURKEY", "A CON", ()))
