"""Simulated games of the engine itself, between any bots."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from services.environments.diplomacy.bots.lookahead.seats import Others, seats
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.diplomacy.rules.fast_engine import FastGame
from services.environments.playing import Bot

Sheets = Mapping[str, tuple[str, ...]]


class SimulatedGame(FastGame):
    """An engine whose games begin again and again and of which no history is kept."""

    def begin(self, state: Mapping[str, Any]) -> None:
        """Go to a state."""
        self.outcome: list[str] = []  # of the game before
        self.set_state(state)

    def update_hash(self, *_args: Any, **_kwargs: Any) -> int:
        """Nothing asks for the hash of a simulated game."""
        return 0


class EngineGames:
    """Plays on as ``Simulator`` says."""

    def __init__(self, position: Position, power: str, others: Others, own: Sequence[Bot], last_year: int) -> None:
        self._position = position
        self._state = position.state()
        self._engine = SimulatedGame()
        self._power = power
        self._seats = seats(power, others, own)
        self._last_year = last_year
        self._openings: dict[int, tuple[dict[str, Bot], Sheets]] = {}  # by seed: the players, and their first orders

    def centers(self, orders: tuple[str, ...], seed: int) -> int:
        """The centres of the power at the end of a game that begins with these orders."""
        players, first = self._opening(seed)
        rng = random.Random(seed + 1)
        self._engine.begin(self._state)
        self._adjudicate({**first, self._power: orders}, self._position)
        while not self._is_over():
            position = read_position(self._engine, str(self._engine.current_short_phase))
            sheets = {power: players[power].actions(position, power, rng.getrandbits(63)) for power in position.to_move}
            self._adjudicate(sheets, position)
        return len(self._engine.powers[self._power].centers)

    def _adjudicate(self, sheets: Sheets, position: Position) -> None:
        """Orders of bots are legal and need no check."""
        for power, orders in sheets.items():
            self._engine.write_orders(power, orders, position)
        self._engine.process_unrecorded()

    def _is_over(self) -> bool:
        """Whether the centres of the last year are known: its adjustments change none."""
        own = self._engine.powers[self._power]
        if self._engine.is_game_done or not (own.centers or own.units or own.retreats):
            return True
        phase = str(self._engine.current_short_phase)
        year = int(phase[1:5])
        return year > self._last_year or (year == self._last_year and phase[0] == "W")

    def _opening(self, seed: int) -> tuple[dict[str, Bot], Sheets]:
        known = self._openings.get(seed)
        if known is None:
            rng = random.Random(seed)
            players = {power: rng.choice(bots) for power, bots in self._seats.items()}
            first = {
                power: players[power].actions(self._position, power, rng.getrandbits(63))
                for power in self._position.to_move
                if power != self._power
            }
            known = self._openings[seed] = players, first
        return known
