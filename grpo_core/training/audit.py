"""Each update's metrics and audit record: groups, advantages and optimizer steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.dynamic_sampling import zero_variance_samples
from grpo_core.advantages.explained_variance import explained_sums
from grpo_core.advantages.grouping import RUNNING_LEVEL, Sample, turn_facts_of
from grpo_core.advantages.pipeline import AdvantageBatch
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.training.distributions import distributions
from grpo_core.types import Batch, FloatArray, Group

if TYPE_CHECKING:  # they import torch, which readers of the records need not wait for
    from grpo_core.batching.microbatches import TrainingTurn
    from grpo_core.gradients.gradient_surgery import SurgeryRecord

# 3: "zero_variance" of a group, which was "zero". Parts that readers can do without are added under the same number.
AUDIT_SCHEMA = 3


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer step."""

    loss: float
    grad_norm: float  # before clipping
    skipped: bool  # the minibatch had no gradient
    surgery: SurgeryRecord | None = None  # with grouping.gradient_surgery
    alignment: float | None = None  # the alignment loss, a part of ``loss``; with alignment.weight


def update_metrics(
    batch: Batch,
    learner: LearnerSettings,
    keys: Sequence[str],
    advantages: AdvantageBatch,
    turns: Sequence[TrainingTurn],
    steps: Sequence[StepRecord],
    sums: Mapping[str, float],
) -> dict[str, float]:
    """Return one update's flat numbers; ratios, KL and entropy are over the tokens that had a forward pass.

    Numbers of parts that the loss does not have (reference, dual clip, off-policy weights) are left out.
    """
    taken = [step for step in steps if not step.skipped]
    tokens = max(sums["tokens"], 1.0)
    staleness = np.array([turn.staleness for turn in turns] or [0])
    samples = len(advantages.samples)
    by_level = samples_by_level(advantages.groups, keys)
    metrics = {
        "episodes": float(len(batch.episodes)),
        "samples": float(samples),
        "turns": float(len(turns)),
        "trained_tokens": float(sum(len(turn.position_S) for turn in turns)),
        "optimizer_steps": float(len(taken)),
        "skipped_steps": float(len(steps) - len(taken)),
        "loss": _mean([step.loss for step in taken]),
        "grad_norm": _mean([step.grad_norm for step in taken]),
        "grad_norm_max": max((step.grad_norm for step in taken), default=0.0),
        "ratio_mean": sums["ratio"] / tokens if taken else 1.0,
        "ratio_max": sums["ratio_max"] if taken else 1.0,
        "clip_fraction_low": sums["clipped_low"] / tokens,
        "clip_fraction_high": sums["clipped_high"] / tokens,
        "approx_kl": sums["kl"] / tokens,
        "entropy": sums["entropy"] / tokens,
        "reward_mean": _mean([episode.reward for episode in batch.episodes]),
        "return_mean": float(advantages.returns.mean()),
        "return_std": float(advantages.returns.std()),
        "advantage_mean": float(advantages.advantages.mean()),
        "advantage_std": float(advantages.advantages.std()),
        "advantage_max_abs": float(np.abs(advantages.advantages).max()),
        "groups": float(len(advantages.groups)),
        "zero_variance_fraction": float(zero_variance_samples(advantages).mean()),
        "fallback_fraction": 1 - by_level[keys[0]] / samples,
        "running_baseline_fraction": by_level[RUNNING_LEVEL] / samples,
        "staleness_mean": float(staleness.mean()),
        "staleness_max": float(staleness.max()),
    }
    metrics |= _optional_metrics(learner, sums, tokens)
    surgeries = [step.surgery for step in steps if step.surgery is not None]
    if surgeries:
        metrics["gradient_conflict_fraction"] = _mean([surgery.conflict_fraction for surgery in surgeries])
        metrics["gradient_cosine"] = _mean([surgery.cosine_mean for surgery in surgeries])
    aligned = [step.alignment for step in steps if step.alignment is not None]
    if aligned:
        metrics["alignment_loss"] = _mean(aligned)
    parts = sorted({name for episode in batch.episodes for name in episode.reward_parts})
    for name in parts:
        metrics[f"reward/{name}"] = _mean([episode.reward_parts.get(name, 0.0) for episode in batch.episodes])
    return metrics


def _optional_metrics(learner: LearnerSettings, sums: Mapping[str, float], tokens: float) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if learner.beta > 0:
        metrics["reference_kl"] = sums["reference_kl"] / tokens
    if learner.delta is not None:
        metrics["clip_fraction_dual"] = sums["clipped_dual"] / tokens
    if learner.decoupled or learner.off_policy_mask_threshold is not None:
        square = sums["importance_square"]
        metrics |= {
            "importance_weight_mean": sums["importance"] / tokens,
            "importance_weight_max": sums["importance_max"],
            "importance_masked_fraction": sums["masked"] / tokens,
            # Kish's effective sample size over the sample size; 1 if all weights are equal.
            "importance_effective_fraction": sums["importance"] ** 2 / (square * tokens) if square else 0.0,
        }
    return metrics


def audit_record(
    version: int,
    learner: LearnerSettings,
    grouping: GroupingSettings,
    advantages: AdvantageBatch,
    steps: Sequence[StepRecord],
    metrics: Mapping[str, float],
) -> dict[str, Any]:
    """Return the audit record of the update that made ``version``, in JSON values; null for what is not finite.

    ``explained`` has the ``explained_sums`` of every candidate key, declared or not, to help choose keys.
    ``distributions`` has returns and advantages by role (see there); records of earlier versions lack it.
    """
    return {
        "schema": AUDIT_SCHEMA,
        "version": version,
        "loss_type": learner.loss_type,
        "importance_sampling_level": learner.importance_sampling_level,
        "normalizer": learner.named_normalizer,
        "keys": list(grouping.keys),
        "cluster_features": list(grouping.cluster_features),
        "turn_facts": sorted(turn_facts_of(advantages.samples)),
        "role_name": grouping.role_name,
        "min_group_size": grouping.min_group_size,
        "scale_rewards": grouping.scale_rewards,
        "baseline": grouping.baseline,
        "outcome_keys_allowed": grouping.allow_outcome_keys,
        "groups": [
            {
                "key": list(group.key),
                "level": group.level,
                "size": len(group.members),
                "judged": len(group.decided),
                "mean": _compact(statistic.mean),
                "std": _compact(statistic.std),
                "zero_variance": statistic.zero_variance,
                **({} if statistic.share == 1 else {"share": _compact(statistic.share)}),
            }
            for group, statistic in zip(advantages.groups, advantages.group_statistics, strict=True)
        ],
        "samples_by_level": samples_by_level(advantages.groups, grouping.keys),
        "explained": _explained(advantages.samples, advantages.returns, grouping),
        "group_weights": {name: _finite(weight) for name, weight in sorted(advantages.group_weights.items())},
        "advantages": _moments(advantages.advantages),
        "distributions": distributions(
            [sample.role for sample in advantages.samples], advantages.returns, advantages.advantages
        ),
        "steps": [asdict(step) | {"loss": _finite(step.loss), "grad_norm": _finite(step.grad_norm)} for step in steps],
        "metrics": {name: _finite(value) for name, value in metrics.items()},
    }


def samples_by_level(groups: Sequence[Group], keys: Sequence[str]) -> dict[str, int]:
    """Count the samples whose advantage each level of the chain decided, ``"running"`` last."""
    counts = dict.fromkeys((*keys, RUNNING_LEVEL), 0)
    for group in groups:
        counts[group.level] += len(group.decided)
    return counts


def _explained(samples: Sequence[Sample], returns: FloatArray, grouping: GroupingSettings) -> dict[str, Any]:
    sums = explained_sums(samples, returns, grouping)
    keys = {
        key: {name: _compact(value) if isinstance(value, float) else value for name, value in asdict(each).items()}
        for key, each in sums.keys.items()
    }
    return {"samples": sums.samples, "keys": keys, "same": sums.same}


def _compact(value: float) -> float | None:
    """Round to seven digits, which suffice because records are only read and added up."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _moments(values: NDArray[np.floating]) -> dict[str, float]:
    wide = values.astype(np.float64)
    return {"mean": float(wide.mean()), "std": float(wide.std()), "min": float(wide.min()), "max": float(wide.max())}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
