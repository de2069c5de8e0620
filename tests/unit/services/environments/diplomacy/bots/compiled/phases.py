"""Games with all kinds of orders, and orders as arrays."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.environments.diplomacy.bots.compiled.board import board
from services.environments.diplomacy.bots.compiled.order_text import parse_order
from services.environments.diplomacy.bots.compiled.state import Orders, no_orders
from services.environments.diplomacy.bots.dumbbot import DumbBot
from services.environments.diplomacy.bots.fill_slots import fill_slots
from services.environments.diplomacy.bots.greedy import GreedyBot
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.diplomacy.rules.fast_engine import FastGame
from services.environments.diplomacy.rules.orders import WAIVE, sheet

BOTS = (DumbBot(), GreedyBot())
STYLES = ("bots", "even", "attacks", "mixed")


@dataclass(frozen=True)
class Phase:
    """A phase without convoys: the position, what each power ordered, and the position that follows."""

    position: Position
    sheets: Mapping[str, tuple[str, ...]]
    following: Position


def phases(seed: int, style: str, count: int) -> Iterator[Phase]:
    """The first phases of a game. Attacks are many moves and supports of moves that are really ordered."""
    rng, game = random.Random(seed), FastGame()
    for _ in range(count):
        position = read_position(game, str(game.current_short_phase))
        sheets = {
            power: _orders(position, power, rng.choice(STYLES[:-1]) if style == "mixed" else style, rng)
            for power in position.to_move
        }
        if style == "attacks" and position.kind == "M":
            sheets = {power: _helping(position, power, sheets, rng) for power in sheets}
        for power, orders in sheets.items():
            game.write_orders(power, orders, position)
        game.process_unrecorded()
        if game.is_game_done:
            return
        yield Phase(position, sheets, read_position(game, str(game.current_short_phase)))


def _orders(position: Position, power: str, style: str, rng: random.Random) -> tuple[str, ...]:
    if style == "bots":
        return rng.choice(BOTS).actions(position, power, rng.getrandbits(60))

    def choose(alternatives: Sequence[str]) -> str:
        usual = [order for order in alternatives if " C " not in order and not order.endswith(" VIA")]
        moves = [order for order in usual if " - " in order and " S " not in order]
        return rng.choice(moves if moves and style == "attacks" and rng.random() < 0.7 else usual)

    return fill_slots(sheet(position, power), choose)


def _helping(
    position: Position, power: str, sheets: Mapping[str, tuple[str, ...]], rng: random.Random
) -> tuple[str, ...]:
    """The sheet of a power in which half of the units that can support what is ordered do so."""
    ordered = {order for orders in sheets.values() for order in orders}
    found = list(sheets[power])
    for number, slot in enumerate(sheet(position, power)):
        useful = [order for order in slot.alternatives if order.partition(" S ")[2] in ordered]
        if useful and rng.random() < 0.5:
            found[number] = rng.choice(useful)
    return tuple(found)


def as_arrays(orders: Iterable[str]) -> Orders:
    """Orders of any powers."""
    found = no_orders(len(board().home_of))
    for order in orders:
        if order != WAIVE:
            parsed = parse_order(order)
            assert parsed is not None
            found.kind[parsed.at], found.aim[parsed.at] = parsed.kind, parsed.aim
            found.helped[parsed.at], found.node[parsed.at] = parsed.helped, parsed.node
    return found
