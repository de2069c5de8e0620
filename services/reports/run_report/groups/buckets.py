"""Updates in buckets of neighbours: a long run has more updates than a page can hold or a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.reports.run_report.charts.chart import MOST_COLUMNS, slices
from services.reports.run_report.schema import Audit


@dataclass(frozen=True, slots=True)
class Bucket:
    """Consecutive updates with their audit records, at least one."""

    audits: tuple[Audit, ...]

    @property
    def last(self) -> int:
        """The last update: where the bucket stands on an axis of updates."""
        return self.audits[-1].version

    @property
    def label(self) -> str:
        """``update 7`` or ``updates 6–10``."""
        first = self.audits[0].version
        return f"update {self.last}" if first == self.last else f"updates {first}–{self.last}"


def bucketed(audits: Sequence[Audit], most: int = MOST_COLUMNS) -> list[Bucket]:
    """Return at most ``most`` buckets of equally many updates each; the first bucket may have fewer."""
    return [Bucket(tuple(audits[part])) for part in slices(len(audits), most)]
