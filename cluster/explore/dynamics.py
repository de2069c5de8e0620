"""A run's course over its updates, in columns: what the page's charts over time are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from grpo_core.types import RoleMeasures
from services.reports.run_report.data import RunData, checkpoint_update, interval
from services.reports.run_report.schema import Audit

Column = list[float | None]
_METRICS = (
    *("reward_mean", "loss", "grad_norm", "entropy", "approx_kl", "clip_fraction_low", "clip_fraction_high"),
    *("ratio_max", "zero_variance_fraction", "fallback_fraction", "running_baseline_fraction", "staleness_mean"),
    *("staleness_max", "reference_kl", "gradient_conflict_fraction", "gradient_cosine", "learning_rate"),
)


def dynamics(audits: Sequence[Audit], measured: RoleMeasures) -> dict[str, Any]:
    """Return columns over the audited updates: ``version``, ``metrics``, ``weights``, ``roles`` and ``spread``.

    ``roles`` has for each role the episodes of the update, their mean reward and the means of its measures; ``spread``
    the size of the roles' advantages, the sum of absolute values, by which an update was carried. None: no value.
    """
    roles = list(dict.fromkeys(role for audit in audits for role in audit.roles))
    weights = sorted({name for audit in audits for name in audit.group_weights})
    named = {name: [_short(audit.metrics.get(name)) for audit in audits] for name in _METRICS}
    names = [measure.name for measure in measured.trained]
    return {
        "version": [audit.version for audit in audits],
        "metrics": {name: column for name, column in named.items() if any(value is not None for value in column)},
        "groups": [len(audit.groups) for audit in audits],
        "levels": _levels(audits),
        "weights": {name: [_short(audit.group_weights.get(name)) for audit in audits] for name in weights},
        "roles": {
            role: {
                "episodes": [audit.roles.count(role) for audit in audits],
                "reward": [_role_mean(audit.rewards, audit, role) for audit in audits],
                **{name: [_role_mean(audit.outcomes.get(name, []), audit, role) for audit in audits] for name in names},
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


def _role_mean(values: Sequence[float | None], audit: Audit, role: str) -> float | None:
    own = [value for value, each in zip(values, audit.roles, strict=False) if each == role and value is not None]
    return _short(fmean(own)) if own else None


def _spread(audit: Audit, role: str) -> float | None:
    found = audit.distributions.advantages.roles.get(role) if audit.distributions else None
    return None if found is None or found.mean_abs is None else _short(found.mean_abs * found.count)


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
