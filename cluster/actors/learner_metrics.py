"""The catalogue's names of an update's metrics, and 95% intervals of each role's recent episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grpo_core.statistics.means import clustered_mean
from grpo_core.statistics.rates import clustered_rate, counted_rate
from grpo_core.types import Episode, RoleMeasures
from services.metrics.catalogue import key
from services.metrics.rolling_windows import EpisodeFacts


def game_length(episode: Episode) -> float:
    """Return how long an episode's game was, in phases; in turns, if its world counts no phases."""
    return episode.outcome.get("phases", float(len(episode.turns)))


def episode_columns(episodes: Sequence[Episode], measured: RoleMeasures) -> dict[str, Any]:
    """Return an update's episodes for its audit record, in JSON values: parallel lists in the order of episodes.

    ``outcomes`` has a list for each measure that training follows, by its name; None where a game had no such figure.
    ``forks`` says which games did not begin at their world's usual start; without any it is left out.
    """
    forks = [episode.keys.get("fork") is not None for episode in episodes]
    return {
        "episodes": [episode.episode_id for episode in episodes],
        **({"forks": forks} if any(forks) else {}),
        "lengths": [game_length(episode) for episode in episodes],
        "roles": [episode.role for episode in episodes],
        "rewards": [_finite(episode.reward) for episode in episodes],
        "outcomes": {
            measure.name: [_finite(episode.outcome.get(measure.outcome)) for episode in episodes]
            for measure in measured.trained
        },
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.7g}")


def thought_lengths(episodes: Sequence[Episode]) -> list[int]:
    """Return the sampled tokens of each thought: those without a mask in a turn whose orders had one."""
    turns = [turn for episode in episodes for turn in episode.turns]
    lengths = [int((np.diff(turn.admissible_offsets) == 0).sum()) for turn in turns]
    return [length for length in lengths if length]


def role_intervals(windows: Mapping[str, Sequence[EpisodeFacts]], measured: RoleMeasures) -> dict[str, float]:
    """Compute the bounds of the intervals of each role's measures, by catalogue key.

    Only blocks are independent, because the games of one line-up block share their opponents: see ``clustered_mean``
    and ``clustered_rate``. A role with episodes of only one block has no interval.
    """
    found: dict[str, float] = {}
    for role, window in windows.items():
        blocks: dict[str, list[EpisodeFacts]] = {}
        for fact in window:
            blocks.setdefault(fact.block, []).append(fact)
        for measure in measured.trained:
            values = [[fact.values[measure.name] for fact in block] for block in blocks.values()]
            if measure.weight:
                estimate = counted_rate(
                    [
                        [(fact.values[measure.name], fact.values[measure.weight]) for fact in own]
                        for own in blocks.values()
                    ]
                )
            elif measure.kind == "share":
                estimate = clustered_rate(values)
            else:
                estimate = clustered_mean(values, (measure.low, measure.high))
            if estimate is not None and estimate.interval is not None:
                for end, bound in zip(("low", "high"), estimate.interval, strict=True):
                    name = f"entente_{measured.role_name}_{measure.name}_{end}"
                    found[key(name, **{measured.role_name: role})] = bound
    return found


_CATALOGUED = {
    "loss": "entente_loss",
    "approx_kl": "entente_kl",
    "entropy": "entente_entropy",
    "grad_norm": "entente_grad_norm",
    "learning_rate": "entente_learning_rate",
    "zero_variance_fraction": "entente_zero_variance_fraction",
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


def catalogued(
    metrics: Mapping[str, float], audit: Mapping[str, Any], episodes: Sequence[Episode], measured: RoleMeasures
) -> dict[str, float]:
    """Return the learner's metrics by catalogue key; metrics that the update does not have are left out."""
    values = {name: metrics[ours] for ours, name in _CATALOGUED.items() if ours in metrics}
    values["entente_clip_fraction"] = metrics["clip_fraction_low"] + metrics["clip_fraction_high"]
    for name, value in metrics.items():
        if name.startswith("reward/"):
            values[key("entente_reward_part", part=name.removeprefix("reward/"))] = value
    for name, weight in audit["group_weights"].items():
        values[key("entente_group_weight", group=name)] = math.nan if weight is None else weight
    if lengths := thought_lengths(episodes):
        values["entente_thought_tokens"] = sum(lengths) / len(lengths)
        values["entente_thought_tokens_max"] = float(max(lengths))
    sizes: dict[str, list[int]] = {}
    for group in audit["groups"]:
        sizes.setdefault(group["level"], []).append(group["judged"])
    for level, judged in sizes.items():
        values[key("entente_groups", level=level)] = float(len(judged))
        values[key("entente_group_size", level=level)] = sum(judged) / len(judged)
    main = measured.main
    for role in sorted({episode.role for episode in episodes}):
        found = [episode.outcome[main.outcome] for episode in episodes if episode.role == role]
        values[key(f"entente_batch_{main.name}", **{measured.role_name: role})] = sum(found) / len(found)
    return values
