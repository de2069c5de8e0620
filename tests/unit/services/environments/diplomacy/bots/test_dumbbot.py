"""DumbBot's values equal those of the published description, and its orders follow from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.bench.system.bots import dumbbot_positions, reference_orders, reference_values
from services.environments.diplomacy.bots.dumbbot import DumbBot, decide, walk
from services.environments.diplomacy.bots.dumbbot_values import Values, board, values
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import distances_to, geography


def positions_of(name: str, seed: int, until_year: int) -> list[Position]:
    game, bot, positions = DiplomacyGame(until_year), make_bot(name), []
    while not game.is_done:
        positions.append(game.position)
        for number, power in enumerate(game.position.to_move):
            game.set_orders(power, bot.actions(game.position, power, 1000 * seed + number))
        game.process()
    return positions


@pytest.fixture(scope="module", params=["dumbbots", "greedy"])
def positions(request):
    """A game's retreats and adjustments, and every second of its movement positions."""
    dumb = request.param == "dumbbots"
    game = dumbbot_positions(seed=4, until_year=1905) if dumb else positions_of("greedy", seed=8, until_year=1905)
    movements = [position for position in game if position.kind == "M"]
    return [*movements[::2], *(position for position in game if position.kind != "M")]


def test_values_and_orders_equal_the_description(positions):
    here = board()
    assert {position.kind for position in positions} == {"M", "R", "A"}
    for position in positions:
        fast = values(position)
        for row, power in enumerate(POWERS):
            places, competition = reference_values(position, power)
            np.testing.assert_allclose(fast.places[row], [places[node] for node in here.node_index], rtol=1e-12)
            assert fast.competition[row] == [competition[name] for name in here.province_index]
            assert DumbBot().actions(position, power, 7) == reference_orders(position, power, 7)


def test_the_values_of_a_position_are_computed_once():
    position = DiplomacyGame(1901).position
    for power in POWERS:
        DumbBot().actions(position, power, 0)
    kept = position.memo[Values]
    assert kept is values(position)


def test_undivided_proximities_are_exact_integers():
    # The largest that can ever occur: every centre belongs to the strongest rival the rules allow.
    here = board()
    largest = np.full((1, len(here.node_index)), 700.0 * (34 * 34 + 4 * 34 + 16))
    for _ in range(9):
        largest = largest[:, here.siblings].max(axis=2) + largest @ here.inflow
    assert largest.max() < 2**53


def test_the_map_has_the_published_number_of_places():
    world = geography()
    assert len(world.centers) == 34
    assert sum(node.startswith("A ") for node in world.nodes) == 56
    assert sum(node.startswith("F ") for node in world.nodes) == 19 + 39 + 6  # seas, plain coasts, split coasts
    assert all(node in world.neighbors[other] for node in world.nodes for other in world.neighbors[node])
    steps = distances_to(["LVP"])
    assert (steps["A LVP"], steps["F WAL"], steps["F MAO"]) == (0, 1, 2)
    assert "A PAR" not in steps


def scripted(*draws: float):
    remaining = iter(draws)
    return lambda: next(remaining)


def test_a_walk_takes_the_next_best_by_chance_and_stops_at_the_last():
    assert walk([100.0], scripted()) == 0
    assert walk([100.0, 99.0], scripted(0.5)) == 0  # not below the chance of an alternative
    assert walk([100.0, 99.0], scripted(0.04)) == 0  # below 5 x 1 %
    assert walk([100.0, 99.0], scripted(0.05)) == 1
    assert walk([100.0, 89.0, 89.0], scripted(0.49)) == 0  # 11 % worse: never an alternative
    assert walk([100.0, 99.0, 99.0], scripted(0.3, 0.2)) == 2
    assert walk([0.0, -5.0], scripted(0.0)) == 1  # nothing to compare with: chance alone decides


@pytest.fixture(scope="module")
def crowded():
    """The last movement of a game, with many units."""
    return [position for position in dumbbot_positions(seed=2, until_year=1905) if position.kind == "M"][-1]


@settings(max_examples=60, deadline=None)
@given(value_seed=st.integers(0, 2**32), seed=st.integers(0, 2**32))
def test_any_values_give_one_legal_order_per_unit(crowded, value_seed, seed):
    # Random values send units after one another in circles, which real values seldom do.
    position = crowded
    rng = np.random.default_rng(value_seed)
    places = rng.integers(-3, 4, len(board().node_index)).astype(float)
    competition = rng.integers(0, 3, len(board().province_index)).astype(float)
    for power in POWERS:
        orders = decide(position, power, places.tolist(), competition.tolist(), seed)
        assert len(orders) == len(position.units[power])
        for unit, order in zip(position.units[power], orders, strict=True):
            assert order.startswith(f"{unit} ")
            assert order in position.legal[unit[2:]]


def test_builds_go_to_the_best_place_and_disbands_to_the_worst():
    here = board()
    for position in [position for position in positions_of("random", seed=3, until_year=1909) if position.kind == "A"]:
        for power in position.to_move:
            places = dict(zip(here.node_index, values(position).places[POWERS.index(power)], strict=True))
            orders = DumbBot().actions(position, power, 0)
            named = [order[:-2] for order in orders if order != "WAIVE"]
            if position.adjustments[power] > 0:
                possible = [order[:-2] for place in position.orderable[power] for order in position.legal[place]]
                assert places[named[0]] == max(places[node] for node in possible if node in places)
                assert len({node[2:5] for node in named}) == len(named)
            else:
                kept = set(position.units[power]) - set(named)
                assert max(places[node] for node in named) <= min((places[node] for node in kept), default=np.inf)
