"""A run's course over its updates, in columns: what the page's charts over time are drawn from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from cluster.explore.opponents import Members, opponents_over_updates
from grpo_core.types import Measure, RoleMeasures
from services.reports.run_report.data import RunData, checkpoint_update, interval
from services.reports.run_report.schema import Audit

Column = list[float | None]
_MOST_GROUPS = 64  # whose returns are on the page
_MOST_OF_ONE = 8  # of them, with the same first part of the key, such as the country
_METRICS = (
    *("reward_mean", "loss", "grad_norm", "entropy", "approx_kl", "clip_fraction_low", "clip_fraction_high"),
    "clip_fraction_dual",
    *("ratio_max", "zero_variance_fraction", "fallback_fraction", "running_baseline_fraction", "staleness_mean"),
    *("staleness_max", "reference_kl", "gradient_conflict_fraction", "gradient_cosine", "learning_rate"),
)


def dynamics(audits: Sequence[Audit], measured: RoleMeasures, members: Members) -> dict[str, Any]:
    """Return columns over the audited updates, and their versions.

    ``group_returns`` has the groups that judged most samples, with their mean returns; ``opponents`` is as
    ``opponents_over_updates`` returns it;
    ``roles`` has for each role the episodes of the update, their mean reward and the means of its measures; ``spread``
    the size of the roles' advantages, the sum of absolute values, by which an update was carried. None: no value.
    """
    roles = list(dict.fromkeys(role for audit in audits for role in audit.roles))
    weights = sorted({name for audit in audits for name in audit.group_weights})
    named = {name: [_short(audit.metrics.get(name)) for audit in audits] for name in _METRICS}
    return {
        "version": [audit.version for audit in audits],
        "metrics": {name: column for name, column in named.items() if any(value is not None for value in column)},
        "group_returns": _group_returns(audits),
        "opponents": _shortened(opponents_over_updates(audits, members)),
        "groups": [len(audit.groups) for audit in audits],
        "levels": _levels(audits),
        "weights": {name: [_short(audit.group_weights.get(name)) for audit in audits] for name in weights},
        "roles": {
            role: {
                "episodes": [audit.roles.count(role) for audit in audits],
                "reward": [_role_mean(audit.rewards, audit, role, [1.0] * len(audit.roles)) for audit in audits],
                **{
                    each.name: [
                        _role_mean(audit.outcomes.get(each.name, []), audit, role, _weights(audit, each))
                        for audit in audits
                    ]
                    for each in measured.trained
                },
            }
            for role in roles
        },
        "spread": {role: [_spread(audit, role) for audit in audits] for role in roles},
    }


def evaluation_points(data: RunData) -> list[dict[str, Any]]:
    """Return the run's evaluations: update, opponent, and the main measure with its interval."""
    main = data.measured.main
    return [
        {
            "update": checkpoint_update(row),
            "against": row.get("against", ""),
            "value": row.get(main.row_name),
            "interval": None if (ends := interval(row, main)) is None else list(ends),
            "games": row.get("games"),
        }
        for row in data.course
    ]


def _levels(audits: Sequence[Audit]) -> dict[str, Column]:
    """How many samples each level of the chain decided, by update."""
    levels = dict.fromkeys(group.level for audit in audits for group in audit.groups)
    return {
        level: [sum(group.judged for group in audit.groups if group.level == level) for audit in audits]
        for level in levels
    }


def _group_returns(audits: Sequence[Audit]) -> list[dict[str, Any]]:
    """Mean returns over the updates of the groups that judged most samples, those first."""
    judged: Counter[tuple[Any, ...]] = Counter()
    means: dict[tuple[Any, ...], dict[int, float | None]] = {}
    for place, audit in enumerate(audits):
        for group in audit.groups:
            name = (group.level, *group.key)
            judged[name] += group.judged
            means.setdefault(name, {})[place] = None if group.mean is None else float(f"{group.mean:.3g}")
    ranked = [name for name, count in judged.most_common() if count > 0]
    firsts: Counter[Any] = Counter()
    kept = []
    for name in ranked:
        first = name[1:2]
        firsts[first] += 1
        if firsts[first] <= _MOST_OF_ONE:
            kept.append(name)
    return [
        {"level": level, "key": key, "mean": [means[(level, *key)].get(place) for place in range(len(audits))]}
        for level, *key in kept[:_MOST_GROUPS]
    ]


def _shortened(columns: Mapping[str, Mapping[str, Column]]) -> dict[str, dict[str, Column]]:
    return {
        kind: {name: [_short(value) for value in column] for name, column in named.items()}
        for kind, named in columns.items()
    }


def _weights(audit: Audit, measure: Measure) -> Sequence[float | None]:
    """What each episode's value of a measure weighs in a mean; none where an early record does not tell."""
    return audit.outcomes.get(measure.weight, []) if measure.weight else [1.0] * len(audit.roles)


def _role_mean(
    values: Sequence[float | None], audit: Audit, role: str, weights: Sequence[float | None]
) -> float | None:
    own = [
        (value, weight)
        for value, each, weight in zip(values, audit.roles, weights, strict=False)
        if each == role and value is not None and weight
    ]
    return _short(fmean(*zip(*own, strict=True))) if own else None


def _spread(audit: Audit, role: str) -> float | None:
    found = audit.distributions.advantages.roles.get(role) if audit.distributions else None
    return None if found is None or found.mean_abs is None else _short(found.mean_abs * found.count)


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
