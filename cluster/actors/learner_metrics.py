"""What an update's metrics are called in the catalogue, and 95% intervals of each country's recent episodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grpo_core.types import Episode
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


_CATALOGUED = {
    "loss": "entente_loss",
    "approx_kl": "entente_kl",
    "entropy": "entente_entropy",
    "grad_norm": "entente_grad_norm",
    "learning_rate": "entente_learning_rate",
    "zero_signal_fraction": "entente_zero_signal_fraction",
    "staleness_mean": "entente_staleness_updates",
    "staleness_max": "entente_staleness_updates_max",
    "reward_mean": "entente_episode_reward",
    "ratio_max": "entente_ratio_max",
    "advantage_std": "entente_advantage_std",
    "fallback_fraction": "entente_fallback_fraction",
    "running_baseline_fraction": "entente_running_baseline_fraction",
    "reference_kl": "entente_reference_kl",
    "importance_effective_fraction": "entente_importance_effective_fraction",
    "importance_masked_fraction": "entente_importance_masked_fraction",
    "gradient_conflict_fraction": "entente_gradient_conflict_fraction",
    "gradient_cosine": "entente_gradient_cosine",
    "alignment_loss": "entente_alignment_loss",
}


def catalogued(metrics: Mapping[str, float], audit: Mapping[str, Any], episodes: Sequence[Episode]) -> dict[str, float]:
    """The learner's flat numbers under the catalogue's names; a figure that the update does not have is left out."""
    values = {name: metrics[ours] for ours, name in _CATALOGUED.items() if ours in metrics}
    values["entente_clip_fraction"] = metrics["clip_fraction_low"] + metrics["clip_fraction_high"]
    for name, value in metrics.items():
        if name.startswith("reward/"):
            values[key("entente_reward_part", part=name.removeprefix("reward/"))] = value
    for name, weight in audit["group_weights"].items():
        values[key("entente_group_weight", group=name)] = math.nan if weight is None else weight
    sizes: dict[str, list[int]] = {}
    for group in audit["groups"]:
        sizes.setdefault(group["level"], []).append(group["judged"])
    for level, judged in sizes.items():
        values[key("entente_groups", level=level)] = float(len(judged))
        values[key("entente_group_size", level=level)] = sum(judged) / len(judged)
    for role in sorted({episode.role for episode in episodes}):
        centers = [episode.outcome["centers"] for episode in episodes if episode.role == role]
        values[key("entente_batch_centers", country=role)] = sum(centers) / len(centers)
    return values
