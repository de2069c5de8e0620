"""How each country did in its last episodes; a country without any has no data (``None``, never NaN)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean, stdev

from grpo_core.types import Episode
from services.metrics.catalogue import key

EPISODES = 100
_MEASURED = ("centers", "win_rate", "top_rate", "survival_rate", "reward", "reward_std", "phases")


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What one episode contributes."""

    reward: float
    centers: float
    win: float  # 1: a solo
    top: float  # 1: most centres at the end, ties included
    survived: float  # 1: owns something at the end
    phases: float  # game length


@dataclass(frozen=True, slots=True)
class CountrySummary:
    """Means over a country's last episodes."""

    episodes: int  # in the window; at least 1
    reward: float
    reward_std: float | None  # Bessel-corrected; None with one episode
    centers: float
    win_rate: float
    top_rate: float
    survival_rate: float
    phases: float


def facts(episode: Episode) -> EpisodeFacts:
    """What an episode contributes; a fact its task does not have counts as 0."""
    outcome = episode.outcome
    return EpisodeFacts(
        reward=episode.reward,
        centers=outcome.get("centers", 0.0),
        win=outcome.get("solo", 0.0),
        top=outcome.get("top", 0.0),
        survived=outcome.get("survived", 0.0),
        phases=outcome.get("phases", float(len(episode.turns))),
    )


class CountryWindows:
    """The last episodes of every country, for the display, the exporter and ``metrics.jsonl``."""

    def __init__(self, size: int = EPISODES) -> None:
        self._size = size
        self._windows: dict[str, deque[EpisodeFacts]] = {}

    def add(self, episode: Episode) -> None:
        """Take an episode in; the country's oldest leaves when the window is full."""
        self._add(episode.role, facts(episode))

    def _add(self, country: str, fact: EpisodeFacts) -> None:
        self._windows.setdefault(country, deque(maxlen=self._size)).append(fact)

    def summary(self, country: str) -> CountrySummary | None:
        """Means over the window, or ``None`` where the country has no episode yet."""
        window = self._windows.get(country)
        return summarize(window) if window else None

    def facts(self) -> Mapping[str, Sequence[EpisodeFacts]]:
        """What is in the windows, by country, the oldest first; countries without an episode are not named."""
        return {country: tuple(window) for country, window in self._windows.items() if window}

    def metrics(self) -> dict[str, float]:
        """Every country's summary as catalogue measurements; what has no data is left out."""
        return dict(self._metrics())

    def _metrics(self) -> Iterator[tuple[str, float]]:
        for country in sorted(self._windows):
            summary = self.summary(country)
            if summary is None:
                continue
            for name in _MEASURED:
                value: float | None = getattr(summary, name)
                if value is not None:
                    yield key(f"entente_country_{name}", country=country), value

    def state(self) -> dict[str, list[list[float]]]:
        """Plain JSON for a checkpoint."""
        names = [field.name for field in fields(EpisodeFacts)]
        return {
            country: [[getattr(fact, name) for name in names] for fact in window]
            for country, window in self._windows.items()
        }

    def load_state(self, state: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Go on from a checkpoint."""
        self._windows.clear()
        for country, rows in state.items():
            for row in rows:
                self._add(country, EpisodeFacts(*row))


def summarize(window: Sequence[EpisodeFacts] | deque[EpisodeFacts]) -> CountrySummary:
    """Means of at least one episode."""
    rewards = [fact.reward for fact in window]
    return CountrySummary(
        episodes=len(window),
        reward=fmean(rewards),
        reward_std=stdev(rewards) if len(rewards) > 1 else None,
        centers=fmean(fact.centers for fact in window),
        win_rate=fmean(fact.win for fact in window),
        top_rate=fmean(fact.top for fact in window),
        survival_rate=fmean(fact.survived for fact in window),
        phases=fmean(fact.phases for fact in window),
    )
