"""How sure the countries' courses are: 95% intervals over their last episodes, keyed as the catalogue says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from services.metrics.catalogue import key
from services.metrics.rolling_windows import EpisodeFacts
from services.reports.statistics import Estimate, mean_interval, wilson_interval


def country_intervals(windows: Mapping[str, Sequence[EpisodeFacts]]) -> dict[str, float]:
    """Student's t for mean centres, Wilson's for rates; what has no interval (one episode's mean) is left out."""
    return {
        key(f"entente_country_{name}_{end}", country=country): value
        for country, window in windows.items()
        for name, estimate in _estimates(window)
        if estimate is not None and estimate.interval is not None
        for end, value in zip(("low", "high"), estimate.interval, strict=True)
    }


def _estimates(window: Sequence[EpisodeFacts]) -> Iterator[tuple[str, Estimate | None]]:
    yield "centers", mean_interval([fact.centers for fact in window])
    for name, hits in (
        ("win_rate", [fact.win for fact in window]),
        ("top_rate", [fact.top for fact in window]),
        ("survival_rate", [fact.survived for fact in window]),
    ):
        yield name, wilson_interval(round(sum(hits)), len(hits))
