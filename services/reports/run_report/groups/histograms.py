"""Histograms of several updates and roles as one; see ``grpo_core.training.distributions`` for their bins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.reports.run_report.schema import Spread, Spreads

MOST_BINS = 48  # of a histogram on the page
_MOST_DOUBLINGS = 200  # from the narrowest width that is read to the widest


@dataclass(frozen=True, slots=True)
class Histogram:
    """The share of samples in each bin; bin i is ``[(first + i) * width, (first + i + 1) * width)``."""

    width: float
    first: int
    shares: tuple[float, ...]  # they add up to 1
    samples: int
    mean: float  # of the values themselves, not of the bins


def common_width(records: Iterable[Spreads]) -> float | None:
    """Return the narrowest width that all records' bins fit into, with at most ``MOST_BINS`` bins over all of them.

    None where no record has a histogram.
    """
    bins = [(each.width, spread) for each in records for spread in each.roles.values() if spread.bins]
    if not bins:
        return None
    width = max(own for own, _ in bins)
    low = min(spread.first * own for own, spread in bins)
    high = max((spread.first + len(spread.bins)) * own for own, spread in bins)
    for _ in range(_MOST_DOUBLINGS):
        if high - low <= (MOST_BINS - 1) * width:
            break
        width *= 2
    return width


def pooled(records: Sequence[Spreads], width: float, role: str | None = None) -> Histogram | None:
    """Return the histogram of a role (None: of all) over several updates; None without samples.

    ``width`` is at least that of each record. It is a power of two, as theirs are, so no bin is cut.
    """
    counts: Counter[int] = Counter()
    whole = 0.0
    for record in records:
        chosen = record.roles.values() if role is None else [record.roles[role]] if role in record.roles else []
        for spread in chosen:
            _add(counts, spread, record.width / width)
            whole += (spread.mean or 0.0) * sum(spread.bins)
    samples = sum(counts.values())
    if not samples:
        return None
    first, last = min(counts), max(counts)
    return Histogram(
        width, first, tuple(counts[place] / samples for place in range(first, last + 1)), samples, whole / samples
    )


def _add(counts: Counter[int], spread: Spread, scale: float) -> None:
    for i, count in enumerate(spread.bins):
        if count:
            counts[int((spread.first + i) * scale // 1)] += count
