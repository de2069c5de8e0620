"""Games that go on from one position, played by bots to the end of a near year, to see what orders are worth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from services.environments.diplomacy.bots.lookahead.compiled_games import CompiledGames, are_compiled
from services.environments.diplomacy.bots.lookahead.engine_games import EngineGames
from services.environments.diplomacy.bots.lookahead.seats import Others, seats
from services.environments.diplomacy.position import CENTERS_TO_WIN, Position
from services.environments.playing import Bot

SOLO_CENTERS = 22.0  # what a solo counts: more than the 17 centres of one who nearly has it, and no other result


class Simulator:
    """Plays on from ``position`` with any first orders of ``power``; equal seeds meet equal first orders of the others.

    ``others`` are the bots that may sit in the six other seats, of all or by power, and ``own`` those that may go on
    for ``power``: each simulated game draws them again. Games end with ``last_year``. Machine code plays them where it
    knows all the bots.
    """

    def __init__(self, position: Position, power: str, others: Others, own: Sequence[Bot], last_year: int) -> None:
        kind = CompiledGames if are_compiled(chain(*seats(power, others, own).values())) else EngineGames
        self._games: CompiledGames | EngineGames = kind(position, power, others, own, last_year)

    def centers(self, orders: tuple[str, ...], seed: int) -> float:
        """The centres of the power at the end of a game that begins with these orders; ``SOLO_CENTERS`` for a solo."""
        found = self._games.centers(orders, seed)
        return float(found) if found < CENTERS_TO_WIN else SOLO_CENTERS
