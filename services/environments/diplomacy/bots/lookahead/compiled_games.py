"""Simulated games of machine code, between DumbBots and greedy bots."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from services.environments.diplomacy.bots.compiled.board import Ints, board
from services.environments.diplomacy.bots.compiled.order_text import movement_texts, parse_order
from services.environments.diplomacy.bots.compiled.playouts import (
    DUMBBOT,
    GREEDY,
    centers_after,
    final_centers,
    first_orders,
)
from services.environments.diplomacy.bots.compiled.state import Orders, read_state
from services.environments.diplomacy.bots.dumbbot import DumbBot
from services.environments.diplomacy.bots.greedy import GreedyBot
from services.environments.diplomacy.bots.lookahead.engine_games import SimulatedGame
from services.environments.diplomacy.bots.lookahead.seats import Others, seats
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.diplomacy.rules.orders import WAIVE
from services.environments.playing import Bot

_CODES: Mapping[type[Bot], int] = {DumbBot: DUMBBOT, GreedyBot: GREEDY}
_SEEDS = 0xFFFFFFFF  # the largest seed of the compiled generator


def are_compiled(bots: Iterable[Bot]) -> bool:
    """Whether all of the bots exist as machine code."""
    return all(type(bot) in _CODES for bot in bots)


class CompiledGames:
    """Plays on as ``Simulator`` says. Bots choose as those in Python do, but from other random numbers."""

    def __init__(self, position: Position, power: str, others: Others, own: Sequence[Bot], last_year: int) -> None:
        self._position = position
        self._state = read_state(position)
        self._codes = [[_CODES[type(bot)] for bot in bots] for bots in seats(power, others, own).values()]
        self._power = power
        self._number = POWERS.index(power)
        self._last_year = last_year
        self._openings: dict[int, tuple[Ints, Orders]] = {}  # by seed: the players, and the others' first orders
        self._engine: SimulatedGame | None = None  # made for the first convoy

    def centers(self, orders: tuple[str, ...], seed: int) -> int:
        """The centres of the power at the end of a game that begins with these orders."""
        players, first = self._opening(seed & _SEEDS)
        later = (seed + 1) & _SEEDS
        sheet = Orders(*(entries.copy() for entries in first))
        for order in orders:
            if order == WAIVE:
                continue
            parsed = parse_order(order)
            if parsed is None:
                engine = self._after_convoys(orders, first)
                if engine.is_game_done:
                    return len(engine.powers[self._power].centers)
                state = read_state(read_position(engine, str(engine.current_short_phase)))
                return final_centers(board(), state, players, self._number, self._last_year, later)
            sheet.kind[parsed.at], sheet.aim[parsed.at] = parsed.kind, parsed.aim
            sheet.helped[parsed.at], sheet.node[parsed.at] = parsed.helped, parsed.node
        return centers_after(board(), self._state, sheet, players, self._number, self._last_year, later)

    def _opening(self, seed: int) -> tuple[Ints, Orders]:
        known = self._openings.get(seed)
        if known is None:
            rng = random.Random(seed)
            players = np.array([rng.choice(codes) for codes in self._codes], np.int64)
            first = first_orders(board(), self._state, players, self._number, seed)
            known = self._openings[seed] = players, first
        return known

    def _after_convoys(self, orders: tuple[str, ...], first: Orders) -> SimulatedGame:
        """The engine after a movement phase with convoys."""
        self._engine = self._engine or SimulatedGame()
        self._engine.begin(self._position.state())
        for power, texts in movement_texts(self._state, first).items():
            self._engine.write_orders(power, orders if power == self._power else texts, self._position)
        self._engine.process_unrecorded()
        return self._engine
