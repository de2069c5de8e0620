"""Every bot in whole games gives legal, complete, reproducible orders; hold, random and greedy follow their rules."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache

import pytest

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import BOT_NAMES, make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position

QUICK = [name for name in BOT_NAMES if name != "lookahead"]  # a decision of which takes a second


@cache
def positions_of(name: str, seeds: int = 2, until_year: int = 1906) -> tuple[Position, ...]:
    """All positions of games between greedy bots and the tested bot."""
    bot, neighbor = make_bot(name), make_bot("greedy")
    seen = []
    for seed in range(seeds):
        game = DiplomacyGame(until_year)
        while not game.is_done:
            seen.append(game.position)
            for number, power in enumerate(game.position.to_move):
                player = bot if (number + seed) % 2 else neighbor
                orders = player.actions(game.position, power, derive_seed(seed, game.position.phase, power))
                assert game.set_orders(power, orders) == ()
            game.process()
    assert {position.kind for position in seen} == {"M", "R", "A"}
    return tuple(seen)


@pytest.mark.parametrize("name", QUICK)
def test_orders_are_legal_complete_and_reproducible_in_every_phase(name):
    bot = make_bot(name)
    for position in positions_of(name):
        for power in POWERS:
            orders = bot.actions(position, power, 11)
            places = position.orderable[power]
            legal = {order for place in places for order in position.legal[place]}
            expected = abs(position.adjustments[power]) if position.kind == "A" else len(places)
            assert len(orders) == expected
            assert set(orders) <= legal
            position.memo.clear()
            assert orders == make_bot(name).actions(position, power, 11)


@pytest.mark.parametrize("name", QUICK)
def test_act_returns_the_orders_without_a_turn(name):
    position = DiplomacyGame(1901).position
    decision = asyncio.run(make_bot(name).act(position, "RUSSIA", 5))
    assert decision.actions == make_bot(name).actions(position, "RUSSIA", 5)
    assert decision.turn is None


@pytest.mark.parametrize("name", ["random", "greedy", "dumbbot"])
def test_different_seeds_play_different_openings(name):
    position, bot = DiplomacyGame(1901).position, make_bot(name)
    openings = {tuple(bot.actions(position, power, seed) for power in POWERS) for seed in range(30)}
    assert len(openings) > 10


def test_an_unknown_bot_is_refused_with_the_known_names():
    with pytest.raises(ValueError, match=r"'dumbo'; there are dumbbot, greedy, hold, lookahead, random"):
        make_bot("dumbo")


def test_hold_holds_disbands_and_waives():
    bot = make_bot("hold")
    marks = {"M": set(), "R": set(), "A": set()}
    for position in positions_of("hold"):
        for power in POWERS:
            owes = position.adjustments[power] < 0
            for order in bot.actions(position, power, 0):
                if not owes:
                    marks[position.kind].add(order.split()[-1])
    assert marks == {"M": {"H"}, "R": {"D"}, "A": {"WAIVE"}}


def test_random_draws_uniformly_from_a_units_legal_orders():
    position, bot = DiplomacyGame(1901).position, make_bot("random")
    draws = Counter(bot.actions(position, "FRANCE", seed)[0] for seed in range(3000))
    legal = position.legal[position.orderable["FRANCE"][0]]
    assert set(draws) == set(legal)
    expected = 3000 / len(legal)
    # Five standard deviations of a multinomial count.
    assert max(abs(count - expected) for count in draws.values()) < 5 * expected**0.5


@pytest.mark.parametrize("name", ["greedy", "dumbbot"])
def test_own_units_never_collide_and_supports_match_the_orders_given(name):
    bot, supports = make_bot(name), 0
    for position in positions_of(name):
        if position.kind != "M":
            continue
        for power in POWERS:
            orders = bot.actions(position, power, 3)
            moves = dict(order.split(" - ") for order in orders if " - " in order and " S " not in order)
            ends = [moves.get(unit, unit[2:])[:3] for unit in position.units[power]]
            assert len(ends) == len(set(ends)), orders
            for order in orders:
                if " S " in order:
                    supports += 1
                    supported, _, destination = order.partition(" S ")[2].partition(" - ")
                    if destination:
                        assert moves[supported] == destination
                    else:
                        assert supported in position.units[power]
                        assert supported not in moves
    assert supports > 5


def test_greedy_takes_the_empty_centres_in_reach():
    position = DiplomacyGame(1901).position
    orders = make_bot("greedy").actions(position, "GERMANY", 1)
    # Kiel reaches Denmark and Holland; Berlin and Munich have no empty centre next to them.
    assert {order for order in orders if order.startswith("F KIE")} <= {"F KIE - DEN", "F KIE - HOL"}


def test_greedy_beats_random_clearly():
    totals = {"greedy": 0, "random": 0}
    for seed, power in enumerate(POWERS):
        game = DiplomacyGame(1905)
        seats = {other: make_bot("greedy" if other == power else "random") for other in POWERS}
        while not game.is_done:
            position = game.position
            for mover in position.to_move:
                game.set_orders(mover, seats[mover].actions(position, mover, derive_seed(seed, position.phase, mover)))
            game.process()
        centers = game.centers()
        totals["greedy"] += centers.pop(power)
        totals["random"] += sum(centers.values())
    assert totals["greedy"] / 7 > 2 * totals["random"] / 42
