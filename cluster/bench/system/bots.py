"""Milliseconds a decision of DumbBot, beside its description in plain Python over precomputed neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from diplomacy import Map

from cluster.bench.figure import Figure, interleaved_seconds
from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.dumbbot import DumbBot, decide
from services.environments.diplomacy.bots.dumbbot_values import board
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position

UNTIL_YEAR = 1908
EVERY = 3  # one position in so many is timed

Orders = Callable[[Position, str, int], tuple[str, ...]]


def run(rounds: int) -> list[Figure]:
    """Time the decisions in positions of a game of seven DumbBots, ``rounds`` alternating timings a side.

    Raises RuntimeError if the two sides decide differently.
    """
    positions = dumbbot_positions(seed=1, until_year=UNTIL_YEAR)[::EVERY]
    decisions = sum(len(position.to_move) for position in positions)
    players: dict[str, Orders] = {"ours": DumbBot().actions, "reference": reference_orders}
    sides = {name: partial(_all_orders, positions, orders) for name, orders in players.items()}
    if sides["ours"]() != sides["reference"]():
        raise RuntimeError("DumbBot and its reference decided differently; their speeds cannot be compared")
    seconds = interleaved_seconds(sides, rounds)
    ours, reference = 1e3 * seconds["ours"] / decisions, 1e3 * seconds["reference"] / decisions
    yardstick = "the description in plain Python, neighbours precomputed"
    note = f"the same {decisions} decisions of all phases, median of {rounds}; legal orders not counted"
    return [Figure("DumbBot decision", "ms", ours, reference, yardstick, lower_is_better=True, note=note)]


def dumbbot_positions(seed: int, until_year: int) -> list[Position]:
    """Every position of a game between seven DumbBots."""
    game, bot, positions = DiplomacyGame(until_year), DumbBot(), []
    while not game.is_done:
        position = game.position
        positions.append(position)
        for power in position.to_move:
            game.set_orders(power, bot.actions(position, power, derive_seed(seed, position.phase, power)))
        game.process()
    return positions


def reference_orders(position: Position, power: str, seed: int) -> tuple[str, ...]:
    """DumbBot's orders, with every value computed separately for each power, place by place."""
    places, competition = reference_values(position, power)
    here = board()
    return decide(
        position,
        power,
        [places[node] for node in here.node_index],
        [competition[name] for name in here.province_index],
        seed,
    )


def reference_values(position: Position, power: str) -> tuple[dict[str, float], dict[str, float]]:
    """Value of each unit-location and competition for each province, by the description's own steps."""
    world = _tables()
    sizes = {name: len(owned) ** 2 + 4 * len(owned) + 16 for name, owned in position.centers.items()}
    owner = {center: name for name, owned in position.centers.items() for center in owned}
    entering = {area: dict.fromkeys(POWERS, 0) for area in world.provinces}
    for name, units in position.units.items():
        for unit in units:
            for area in world.provinces_entered[unit]:
                entering[area][name] += 1
    others = [name for name in POWERS if name != power]
    attack = {area: sizes[owner[area]] if owner.get(area, power) != power else 0 for area in world.provinces}
    defence = {
        area: max((sizes[name] for name in others if entering[area][name]), default=0)
        if owner.get(area) == power
        else 0
        for area in world.provinces
    }
    base_attack, base_defence = (600, 400) if position.season == "F" else (700, 300)
    weights = [100, 1000, 30, 10, 6, 5, 4, 3, 2, 1] if position.season == "S" else [1000, 100, 30, 10, 6, 5, 4, 3, 2, 1]
    proximity: dict[str, float] = {
        node: base_attack * attack[node[2:5]] + base_defence * defence[node[2:5]] for node in world.nodes
    }
    total = {node: weights[0] * proximity[node] for node in world.nodes}
    for weight in weights[1:]:
        proximity = {
            node: (
                max(proximity[other] for other in world.nodes_there[node[2:5]])
                + sum(proximity[other] for other in world.nodes_moving_in[node])
            )
            / 5
            for node in world.nodes
        }
        for node in world.nodes:
            total[node] += weight * proximity[node]
    competition = {area: float(max(entering[area][name] for name in others)) for area in world.provinces}
    for node in world.nodes:
        area = node[2:5]
        if position.kind == "A":
            total[node] += 1000 * defence[area]
        else:
            total[node] += 1000 * entering[area][power] - 1000 * competition[area]
    return total, competition


@dataclass(frozen=True, slots=True)
class _Tables:
    """Where each unit can move, read from the engine's map once."""

    nodes: list[str]
    provinces: list[str]
    nodes_there: dict[str, list[str]]  # province -> unit-locations in it
    nodes_moving_in: dict[str, list[str]]  # unit-location -> unit-locations that can move to its place
    provinces_entered: dict[str, set[str]]  # unit-location -> provinces it can move into


@cache
def _tables() -> _Tables:
    engine_map = Map()
    places = [place.upper() for place in engine_map.locs if place.upper() != "SWI"]
    nodes = [f"{kind} {place}" for kind in "AF" for place in places if engine_map.is_valid_unit(f"{kind} {place}")]
    provinces = sorted({place[:3] for place in places})

    def moves(node: str, place: str) -> bool:
        return bool(engine_map.abuts(node[0], node[2:], "-", place))

    return _Tables(
        nodes=nodes,
        provinces=provinces,
        nodes_there={area: [node for node in nodes if node[2:5] == area] for area in provinces},
        nodes_moving_in={
            node: [other for other in nodes if moves(other, node[2:]) or moves(other, node[2:5])] for node in nodes
        },
        provinces_entered={node: {place[:3] for place in places if moves(node, place)} for node in nodes},
    )


def _all_orders(positions: list[Position], orders: Orders) -> list[tuple[str, ...]]:
    decided = []
    for position in positions:
        position.memo.clear()  # values that players of a position share are part of the work
        decided += [orders(position, power, seed) for seed, power in enumerate(position.to_move)]
    return decided
