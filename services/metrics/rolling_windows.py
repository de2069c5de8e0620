"""Each role's results over its last episodes; a role without any has no data (``None``, never NaN)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from grpo_core.types import Episode, Measure, RoleMeasures
from services.metrics.catalogue import PARTNER, key

EPISODES = 100
_UNNAMED = ("partners_promises",)  # measures that checkpoints lack which do not name theirs


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """The figures of one episode."""

    reward: float
    values: Mapping[str, float]  # of the measures that training follows, by name; 0 where its game had none
    phases: float  # game length
    block: str = ""  # its line-up block; checkpoints of earlier versions lack it, and count as one block
    pairs: Mapping[str, float] = field(default_factory=dict)  # the counts of pair measures, as in the outcome


@dataclass(frozen=True, slots=True)
class RoleSummary:
    """Means over a role's last episodes."""

    episodes: int  # in the window; at least 1
    reward: float
    reward_std: float | None  # Bessel-corrected; None with one episode
    phases: float
    values: Mapping[str, float]  # of the measures that training follows, by name; without those of nothing


class RoleWindows:
    """The last episodes of every role, for the display, the exporter and ``metrics.jsonl``."""

    def __init__(self, measured: RoleMeasures, size: int = EPISODES) -> None:
        self._measured = measured
        self._size = size
        self._windows: dict[str, deque[EpisodeFacts]] = {}
        self._pair_keys = {
            f"{count}/{role}" for each in measured.pairs for count in (each.part, each.whole) for role in measured.roles
        }

    def add(self, episode: Episode) -> None:
        """Add an episode; a full window drops the role's oldest."""
        outcome = episode.outcome
        fact = EpisodeFacts(
            reward=episode.reward,
            values={each.name: outcome.get(each.outcome, 0.0) for each in self._measured.trained},
            phases=outcome.get("phases", float(len(episode.turns))),
            block=episode.block_id,
            pairs={name: outcome[name] for name in sorted(self._pair_keys & outcome.keys())},
        )
        self._windows.setdefault(episode.role, deque(maxlen=self._size)).append(fact)

    def summary(self, role: str) -> RoleSummary | None:
        """Return means over the window, or ``None`` where the role has no episode yet."""
        window = self._windows.get(role)
        if not window:
            return None
        rewards = [fact.reward for fact in window]
        return RoleSummary(
            episodes=len(window),
            reward=fmean(rewards),
            reward_std=stdev(rewards) if len(rewards) > 1 else None,
            phases=fmean(fact.phases for fact in window),
            values={each.name: mean for each in self._measured.trained if (mean := _mean(window, each)) is not None},
        )

    def facts(self) -> Mapping[str, Sequence[EpisodeFacts]]:
        """Return the windows' contents by role, the oldest first."""
        return {role: tuple(window) for role, window in self._windows.items()}

    def metrics(self) -> dict[str, float]:
        """Return every role's summary, and its shares by other role, as catalogue measurements.

        Values without data are left out.
        """
        name = self._measured.role_name
        found: dict[str, float] = {}
        for role in sorted(self._windows):
            summary = self.summary(role)
            if summary is None:
                continue
            figures = {
                **summary.values,
                "reward": summary.reward,
                "reward_std": summary.reward_std,
                "phases": summary.phases,
            }
            for figure, value in figures.items():
                if value is not None:
                    found[key(f"entente_{name}_{figure}", **{name: role})] = value
            found |= self._shares(role)
        return found

    def _shares(self, role: str) -> dict[str, float]:
        """The pair measures of a role, each over all games of its window together."""
        counts: Counter[str] = Counter()
        for fact in self._windows[role]:
            counts.update(fact.pairs)
        name = self._measured.role_name
        return {
            key(f"entente_{name}_{each.name}", **{name: role, PARTNER: other}): counts[f"{each.part}/{other}"] / whole
            for each in self._measured.pairs
            for other in self._measured.roles
            if (whole := counts[f"{each.whole}/{other}"])
        }

    @property
    def measures(self) -> list[str]:
        """The names of the measures of a row of ``state()``, in their order."""
        return [measure.name for measure in self._measured.trained]

    def state(self) -> dict[str, list[list[Any]]]:
        """Return plain JSON for a checkpoint, a row an episode: see ``read_row``."""
        return {role: list(map(_row, window)) for role, window in self._windows.items()}

    def load_state(self, state: Mapping[str, Sequence[Sequence[Any]]], measures: Sequence[str] = ()) -> None:
        """Replace the windows by those of ``state()``, with the ``measures`` of then: see ``read_row``."""
        self._windows = {
            role: deque((read_row(row, self._measured, measures) for row in rows), maxlen=self._size)
            for role, rows in state.items()
        }


def _mean(window: Collection[EpisodeFacts], measure: Measure) -> float | None:
    """The mean over episodes, or over all things that they counted; None where there are none."""
    if not measure.weight:
        return fmean(fact.values[measure.name] for fact in window)
    weights = [fact.values[measure.weight] for fact in window]
    return fmean((fact.values[measure.name] for fact in window), weights) if any(weights) else None


def _row(fact: EpisodeFacts) -> list[Any]:
    pairs = [dict(fact.pairs)] if fact.pairs else []
    return [fact.reward, *fact.values.values(), fact.phases, fact.block, *pairs]


def read_row(row: Sequence[Any], measured: RoleMeasures, measures: Sequence[str] = ()) -> EpisodeFacts:
    """Read an episode's row of ``RoleWindows.state``: its reward, values, length, perhaps its block, perhaps pairs.

    ``measures`` names its values, as ``RoleWindows.measures`` did when it was stored. A measure that is new since then
    is 0, as for a game without such a figure. Without names they are today's, perhaps without the ``_UNNAMED``.
    Raises ValueError if the row has another length or other types.
    """
    today = [measure.name for measure in measured.trained]
    names = list(measures) or _unnamed(row, today)
    more = row[len(names) + 2 :]
    fits = all(isinstance(each, kind) for each, kind in zip(more, (str, Mapping), strict=False))
    if not (len(row) >= len(names) + 2 and len(more) <= 2 and fits):
        raise ValueError(f"an episode has {len(row)} facts that do not fit the measures {', '.join(names)}")
    reward, *values, phases = map(_number, row[: len(names) + 2])
    pairs = {name: _number(count) for name, count in more[1].items()} if len(more) > 1 else {}
    stored = dict(zip(names, values, strict=True))
    return EpisodeFacts(reward, {name: stored.get(name, 0.0) for name in today}, phases, more[0] if more else "", pairs)


def _unnamed(row: Sequence[Any], today: Sequence[str]) -> list[str]:
    numbers = next((place for place, fact in enumerate(row) if isinstance(fact, str)), len(row))
    earlier = [name for name in today if name not in _UNNAMED]
    return earlier if numbers == len(earlier) + 2 else list(today)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a fact of an episode is no number")
    return value
