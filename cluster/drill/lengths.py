"""The lengths of games: whether a run with faults trains on long games as often as one without.

A restart or a time limit strikes a long game more often than a short one. Such a game is played again with its seed,
but perhaps by newer weights, and it must not be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from cluster.actors.learner_metrics import game_length
from cluster.drill.record import Check
from cluster.runs.folder import audits
from services.replay.codec import CodecError, decode

LOWEST_P = 0.001  # of a comparison that passes


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many games had each length, in phases."""

    episodes: int
    mean: float
    counts: dict[str, int]  # by length, the shortest first

    @classmethod
    def of(cls, lengths: Sequence[float]) -> Lengths:
        """Count lengths; without any, the mean is 0."""
        counts = {f"{length:g}": count for length, count in sorted(Counter(lengths).items())}
        return cls(len(lengths), round(fmean(lengths), 4) if lengths else 0.0, counts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lengths of the games of a run with faults, beside those of the same run without."""

    trained: Lengths
    left_out: Lengths  # set aside because they came too late, or waiting at the end
    undisturbed: Lengths
    p_value: float  # of a two-sample Kolmogorov-Smirnov test, trained against undisturbed

    def check(self) -> Check:
        """The check of this comparison."""
        found = (
            f"{self.trained.mean:.3f} phases in the mean of {self.trained.episodes:,} games trained, "
            f"{self.undisturbed.mean:.3f} of {self.undisturbed.episodes:,} without faults, p = {self.p_value:.3f}"
        )
        return Check("long games are trained as often as without faults", self.p_value >= LOWEST_P, found)


def compare(run_dir: Path, waiting: Iterable[bytes], undisturbed: Path) -> Comparison:
    """Compare the games of two finished runs; ``waiting`` are episodes of the first one that its server still holds."""
    from scipy.stats import ks_2samp  # type: ignore[import-untyped]

    trained, set_aside = lengths_used(run_dir)
    reference, _ = lengths_used(undisturbed)
    p_value = float(ks_2samp(trained, reference).pvalue) if trained and reference else 0.0
    left_out = Lengths.of([*set_aside, *_lengths_of(waiting)])
    return Comparison(Lengths.of(trained), left_out, Lengths.of(reference), round(p_value, 6))


def lengths_used(run_dir: Path) -> tuple[list[float], list[float]]:
    """Lengths of the games that a run's updates learned from, and of those that they set aside."""
    records = audits(run_dir).values()
    trained = [length for record in records for length in record["lengths"]]
    return trained, [length for record in records for length in record["set_aside_lengths"]]


def _lengths_of(stored: Iterable[bytes]) -> list[float]:
    found = []
    for data in stored:
        try:
            found.append(game_length(decode(data)))
        except CodecError:  # damaged, and not read yet
            continue
    return found
