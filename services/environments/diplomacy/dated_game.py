"""A game whose standing also has the order in which powers were eliminated, for ratings."""

from __future__ import annotations

from dataclasses import replace

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.scoring.shares import places
from services.environments.playing import Result


class DatedGame(DiplomacyGame):
    """A game that records in which phase (counted from 0) each power was eliminated."""

    def __init__(self, until_year: int, game_id: str | None = None, quiet_years: int | None = None) -> None:
        super().__init__(until_year, game_id, quiet_years=quiet_years)
        self.eliminated: dict[str, int] = {}  # powers that own no centre now
        self._processed = 0

    def process(self) -> None:
        """Adjudicate, as ``DiplomacyGame`` does."""
        super().process()
        for power, count in self.centers().items():
            if count:
                self.eliminated.pop(power, None)
            else:
                self.eliminated.setdefault(power, self._processed)
        self._processed += 1

    def result(self) -> Result:
        """Every power's result; among eliminated powers, the later is before the earlier."""
        result, outcome = super().result(), self.outcome()
        assert result.standing is not None
        by_date = places(outcome.centers, outcome.solo, self.eliminated)
        standing = replace(result.standing, places=by_date, last_is_open=outcome.solo is not None)
        return replace(result, standing=standing)
