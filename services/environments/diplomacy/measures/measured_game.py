"""A game whose result has all that evaluations measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.environments.diplomacy.dated_game import DatedGame
from services.environments.diplomacy.measures.order_counts import OrderCounts, count_movement
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.movement import read_movement
from services.environments.diplomacy.scoring.shares import places
from services.environments.playing import Defect, Result


class MeasuredGame(DatedGame):
    """A game that counts every power's orders, for evaluations."""

    def __init__(self, until_year: int, game_id: str | None = None, quiet_years: int | None = None) -> None:
        super().__init__(until_year, game_id, quiet_years)
        self.counts = {power: OrderCounts() for power in POWERS}

    def note_defects(self, power: str, defects: Sequence[Defect]) -> None:
        """Count what was wrong in a player's text, whose other orders ``step`` gets; letters are no orders."""
        super().note_defects(power, defects)
        if self.takes_time:
            self._count_defects(power, defects)

    def _count_defects(self, power: str, defects: Sequence[Defect]) -> None:
        counts = self.counts[power]
        counts.written += sum(each.reason not in ("repaired", "missing") for each in defects)
        counts.written_legal -= sum(each.reason == "repaired" for each in defects)

    def set_orders(self, power: str, orders: Sequence[str]) -> tuple[Defect, ...]:
        """Replace the orders of ``power``, as ``DiplomacyGame`` does, and count those that it wrote."""
        defects = super().set_orders(power, orders)
        taken = len(self.orders[power])
        self.counts[power].written += taken
        self.counts[power].written_legal += taken
        self._count_defects(power, defects)
        return defects

    def process(self) -> None:
        """Adjudicate, as ``DiplomacyGame`` does, and count what the units did."""
        position, orders = self.position, dict(self.orders)
        super().process()
        if position.kind == "M" and not self.agreed:
            count_movement(self.counts, read_movement(position.units, orders, self.position.past[-1].results))

    def result(self) -> Result:
        """Every power's result, with its rank, how a lead was shared, and shares of its orders.

        Its standing has the order of the ranks, also below a solo: among six powers that share a second place nothing
        would tell the stronger players.
        """
        result = super().result()
        assert result.standing is not None
        finished = places(self.centers(), None, self.eliminated)
        ranks: dict[str, float] = {}
        first = 1
        for place in finished:
            ranks.update(dict.fromkeys(place, first + (len(place) - 1) / 2))
            first += len(place)
        leaders = sum(outcome["top"] for outcome in result.outcomes.values())
        outcomes = {}
        for power, outcome in result.outcomes.items():
            leads, solo = outcome["top"], outcome["solo"]
            outcomes[power] = {
                **outcome,
                "top_split": leads / leaders,
                "top_tied": float(bool(leads) and leaders > 1),
                "top_without_solo": float(bool(leads) and not solo),
                "defeated": 1.0 - outcome["survived"],
                "rank": ranks[power],
                **self.counts[power].shares,
            }
        standing = replace(result.standing, places=finished, last_is_open=False)
        return replace(result, outcomes=outcomes, standing=standing)
