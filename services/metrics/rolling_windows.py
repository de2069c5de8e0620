"""Each country's results over its last episodes; a country without any has no data (``None``, never NaN)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import fmean, stdev
from typing import Any

from grpo_core.types import Episode
from services.metrics.catalogue import key

EPISODES = 100
_MEASURED = ("centers", "win_rate", "top_rate", "survival_rate", "reward", "reward_std", "phases")


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """The figures of one episode; a fact that its task does not have is 0."""

    reward: float
    centers: float
    win: float  # 1: a solo
    top: float  # 1: most centres at the end, ties included
    survived: float  # 1: owns a centre at the end
    phases: float  # game length
    block: str = ""  # its line-up block; checkpoints of earlier versions lack it, and count as one block


@dataclass(frozen=True, slots=True)
class CountrySummary:
    """Means over a country's last episodes."""

    episodes: int  # in the window; at least 1
    reward: float
    reward_std: float | None  # Bessel-corrected; None with one episode
    centers: float
    win_rate: float
    top_rate: float  # ties count
    survival_rate: float
    phases: float


class CountryWindows:
    """The last episodes of every country, for the display, the exporter and ``metrics.jsonl``."""

    def __init__(self, size: int = EPISODES) -> None:
        self._size = size
        self._windows: dict[str, deque[EpisodeFacts]] = {}

    def add(self, episode: Episode) -> None:
        """Add an episode; a full window drops the country's oldest."""
        outcome = episode.outcome
        fact = EpisodeFacts(
            reward=episode.reward,
            centers=outcome.get("centers", 0.0),
            win=outcome.get("solo", 0.0),
            top=outcome.get("top", 0.0),
            survived=outcome.get("survived", 0.0),
            phases=outcome.get("phases", float(len(episode.turns))),
            block=episode.block_id,
        )
        self._windows.setdefault(episode.role, deque(maxlen=self._size)).append(fact)

    def summary(self, country: str) -> CountrySummary | None:
        """Return means over the window, or ``None`` where the country has no episode yet."""
        window = self._windows.get(country)
        if not window:
            return None
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

    def facts(self) -> Mapping[str, Sequence[EpisodeFacts]]:
        """Return the windows' contents by country, the oldest first."""
        return {country: tuple(window) for country, window in self._windows.items()}

    def metrics(self) -> dict[str, float]:
        """Return every country's summary as catalogue measurements; values without data are left out."""
        summaries = {country: self.summary(country) for country in sorted(self._windows)}
        return {
            key(f"entente_country_{name}", country=country): value
            for country, summary in summaries.items()
            for name in _MEASURED
            if (value := getattr(summary, name)) is not None
        }

    def state(self) -> dict[str, list[list[Any]]]:
        """Return plain JSON for a checkpoint."""
        return {country: [list(astuple(fact)) for fact in window] for country, window in self._windows.items()}

    def load_state(self, state: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Replace the windows by those of ``state()``."""
        self._windows = {
            country: deque((EpisodeFacts(*row) for row in rows), maxlen=self._size) for country, rows in state.items()
        }
