"""Games that go on from one position, played by bots to the end of a near year, to see what orders are worth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS, Position
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.diplomacy.rules.fast_engine import FastGame
from services.environments.playing import Bot

SOLO_CENTERS = 22.0  # what a solo counts: more than the 17 centres of one who nearly has it, and no other result

Sheets = Mapping[str, tuple[str, ...]]


class _Engine(FastGame):
    """An engine whose games begin again and again and of which no history is kept."""

    def begin(self, state: Mapping[str, Any]) -> None:
        """Go to a state."""
        self.outcome: list[str] = []  # of the game before
        self.set_state(state)

    def update_hash(self, *_args: Any, **_kwargs: Any) -> int:
        """Nothing asks for the hash of a simulated game."""
        return 0


class Simulator:
    """Plays on from ``position`` with any first orders of ``power``; equal seeds meet equal first orders of the others.

    ``others`` are the bots that may sit in the six other seats, and ``own`` those that may go on for ``power``: each
    simulated game draws them anew. Games end with ``last_year``.
    """

    def __init__(
        self, position: Position, power: str, others: Sequence[Bot], own: Sequence[Bot], last_year: int
    ) -> None:
        self._position = position
        self._state = position.state()
        self._engine = _Engine()
        self._power = power
        self._others = others
        self._own = own
        self._last_year = last_year
        self._openings: dict[int, tuple[dict[str, Bot], Sheets]] = {}  # by seed: the players, and their first orders

    def centers(self, orders: tuple[str, ...], seed: int) -> float:
        """The centres of the power at the end of a game that begins with these orders; ``SOLO_CENTERS`` for a solo."""
        players, first = self._opening(seed)
        rng = random.Random(seed + 1)
        self._engine.begin(self._state)
        self._adjudicate({**first, self._power: orders}, self._position)
        while not self._is_over():
            position = read_position(self._engine, str(self._engine.current_short_phase))
            sheets = {power: players[power].actions(position, power, rng.getrandbits(63)) for power in position.to_move}
            self._adjudicate(sheets, position)
        found = len(self._engine.powers[self._power].centers)
        return float(found) if found < CENTERS_TO_WIN else SOLO_CENTERS

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
            players = {power: rng.choice(self._own if power == self._power else self._others) for power in POWERS}
            first = {
                power: players[power].actions(self._position, power, rng.getrandbits(63))
                for power in self._position.to_move
                if power != self._power
            }
            known = self._openings[seed] = players, first
        return known
