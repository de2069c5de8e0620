"""A run's counters and limits as keys of the metric catalogue, and the sources of their values."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.configs.sections import RolloutSettings
from grpo_core.types import RoleMeasures
from services.metrics.catalogue import key

SWAP_FAILURES = {
    cause: key("entente_swap_failures_total", cause=cause) for cause in ("died", "timed_out", "refused", "lost")
}
NONFINITE = "entente_nonfinite_updates_total"
RUN_RESTARTS = "entente_run_restarts_total"
OVERLAP = "entente_overlap_seconds_total"
# Counters that repeated updates count again after a crash, as those of ``role_episodes``; a crash does not undo others.
MADE_AGAIN = (
    "entente_episodes_total",
    "entente_topped_up_episodes_total",
    "entente_learner_tokens_total",
    "entente_defective_orders_total",
    "entente_truncated_decisions_total",
    "entente_stale_episodes_total",
)
COUNTERS = (
    *MADE_AGAIN,
    "entente_games_total",
    "entente_learner_busy_seconds_total",
    "entente_decisions_total",
    "entente_completion_tokens_total",
    "entente_rollout_busy_seconds_total",
    OVERLAP,
    "entente_run_seconds_total",
    "entente_worker_restarts_total",
    NONFINITE,
    RUN_RESTARTS,
    *SWAP_FAILURES.values(),
)
# Engine counter -> catalogue counter.
ENGINE = {
    "decisions": "entente_decisions_total",
    "completion_tokens": "entente_completion_tokens_total",
    "busy_seconds": "entente_rollout_busy_seconds_total",
    "prompt_tokens": "entente_prompt_tokens_total",
    "cached_prompt_tokens": "entente_cached_prompt_tokens_total",
    "weight_switches": "entente_weight_switches_total",
}
# Those of them that an evaluation adds to.
ENGINE_WORK = ("decisions", "completion_tokens", "busy_seconds", "prompt_tokens", "cached_prompt_tokens")
# The same for remote players, in runs with remote players.
REMOTES = {
    f"remote_{name}": f"entente_remote_{name}_total"
    for name in (
        *("calls", "retries", "failures", "defects", "held"),
        *("prompt_tokens", "completion_tokens", "usage_unknown", "cost"),
    )
}
# Entry of ``ReplayBuffer.memory`` -> gauge.
SERVER_MEMORY = {"used": "entente_buffer_server_bytes", "limit": "entente_buffer_server_bytes_limit"}


def role_episodes(measured: RoleMeasures) -> dict[str, str]:
    """Return the counter of each role's episodes; the world's metrics must be declared."""
    name = measured.role_name
    return {role: key(f"entente_{name}_episodes_total", **{name: role}) for role in measured.roles}


def while_loading(checkpoints: Sequence[int], updates: int, rollout: RolloutSettings) -> dict[str, float]:
    """Return what is exported until the actors of a resumed run have started; nothing for a new run."""
    if not checkpoints:
        return {}
    newest = float(max(checkpoints))
    return {**limits(updates, rollout), "entente_updates_total": newest, "entente_policy_version": newest}


def limits(updates: int, rollout: RolloutSettings) -> dict[str, float]:
    """Limits that alerts compare a run of so many updates with."""
    return {
        "entente_updates_planned": float(updates),
        "entente_update_timeout_seconds": rollout.update_timeout_s,
        "entente_staleness_updates_limit": float(rollout.max_staleness),
    }
