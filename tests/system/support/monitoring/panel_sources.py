"""What feeds each metric that the dashboards show: its origin, when there is data, and the test's source.

``tests/system/reports/test_panels.py`` takes each metric from its source and asks every panel's queries of a real
Prometheus; ``table`` makes ``services/metrics/PANELS.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.environments.diplomacy.measures.definitions import PRESS_MEASURES
from services.environments.diplomacy.press.pairs import PAIR_MEASURES
from services.metrics.catalogue import CATALOGUE
from services.metrics.dashboards.all_dashboards import dashboards
from services.metrics.dashboards.panels import Panel, Query, metric_of
from services.metrics.dashboards.press import press_board
from tests.measured import DIPLOMACY, WITH_PRESS

DASHBOARDS = (*dashboards((DIPLOMACY,)), press_board(WITH_PRESS, DIPLOMACY))

# The test's sources; all but the last two are names of runs, the label that their samples have.
NEGOTIATED = "negotiated"  # a whole run with letters
PLAYED = "played"  # a whole run with a chat opponent and a server with a memory limit; two of its processes are killed
LEARNED = "learned"  # a real learner on a real replay server, with episodes that are late, stored twice or unreadable
SUPERVISED = "supervised"  # real actors of Ray that refuse, lose and do not take weights, and that are killed
RATED = "rated"  # a real league in which the learner wins
VLLM = "vllm"  # a whole run on vLLM's engine, in tests/system/vllm
RAY = "ray"  # a real Ray head; its GPU is simulated below NVML


@dataclass(frozen=True)
class Source:
    """Where a metric comes from."""

    origin: str
    shown_by: str
    needs: str = ""  # what a run must have for it; "": every run has it


def _rows(names: str, origin: str, shown_by: str, needs: str = "") -> dict[str, Source]:
    return dict.fromkeys(names.split(), Source(origin, shown_by, needs))


def _of_countries(names: str) -> str:
    return " ".join(f"entente_country_{name}" for name in names.split())


def _with_bounds(names: str) -> str:
    return " ".join(f"{name} {name}_low {name}_high" for name in names.split())


_RECORDER = "the driver's recorder"
_LEARNER = "the learner's report of an update"
_ENGINES = "the engines' counters, read at each update"
_POOL = "the pool of rollout actors"
_BUFFER = "the replay buffer, after each update"
_PLAYERS = "the chat players' counters, read at each update"
_LEAGUE = "the league, at each update"
_EVALUATION = "an evaluation's result"
_NODES = "Ray's agent on each node"

SOURCES: Mapping[str, Source] = {
    **_rows(
        "entente_updates_total entente_games_total entente_run_seconds_total entente_policy_version "
        "entente_update_seconds entente_updates_planned entente_progress_timestamp_seconds entente_evaluating "
        "entente_update_timeout_seconds entente_staleness_updates_limit entente_weight_bytes "
        "entente_overlap_seconds_total",
        _RECORDER,
        PLAYED,
    ),
    **_rows("entente_run_restarts_total", "restarts.jsonl of the run", PLAYED, "the run was lost and started again"),
    **_rows(
        "entente_nonfinite_updates_total", _RECORDER, LEARNED, "a loss, gradient or figure that is no finite number"
    ),
    **_rows(
        "entente_episodes_total entente_country_episodes_total entente_learner_tokens_total "
        "entente_learner_busy_seconds_total entente_batch_centers entente_episode_reward entente_reward_part "
        "entente_loss entente_kl entente_entropy entente_clip_fraction entente_grad_norm entente_learning_rate "
        "entente_zero_variance_fraction entente_groups entente_group_size entente_ratio_max entente_advantage_std "
        "entente_fallback_fraction entente_running_baseline_fraction entente_staleness_updates "
        "entente_staleness_updates_max",
        _LEARNER,
        PLAYED,
    ),
    **_rows(
        _with_bounds(_of_countries("centers win_rate top_rate survival_rate")) + " "
        + _of_countries("reward reward_std phases"),
        "the learner's last 100 episodes of each country",
        PLAYED,
    ),
    **_rows(_of_countries(" ".join(measure.name for measure in (*PRESS_MEASURES, *PAIR_MEASURES))),
            "the learner's last 100 episodes of each country", NEGOTIATED, "game.press_rounds above 0"),
    **_rows("entente_topped_up_episodes_total", _LEARNER, PLAYED, "learner.top_up_episodes"),
    **_rows("entente_stale_episodes_total", _LEARNER, LEARNED, "episodes that came too late"),
    **_rows("entente_defective_orders_total entente_truncated_decisions_total", _LEARNER, PLAYED,
            "inference.decoding = free"),
    **_rows("entente_thought_tokens entente_thought_tokens_max", _LEARNER, LEARNED,
            "inference.thinking_tokens above 0"),
    **_rows("entente_reference_kl", _LEARNER, PLAYED, "learner.beta above 0"),
    **_rows("entente_importance_effective_fraction entente_importance_masked_fraction", _LEARNER, PLAYED,
            "learner.decoupled, or an off-policy mask"),
    **_rows("entente_gradient_conflict_fraction entente_gradient_cosine", _LEARNER, PLAYED,
            "grouping.gradient_surgery"),
    **_rows("entente_alignment_loss", _LEARNER, PLAYED, "alignment.weight above 0"),
    **_rows("entente_group_weight", _LEARNER, PLAYED, "grouping.group_weights"),
    **_rows(
        "entente_decisions_total entente_completion_tokens_total entente_prompt_tokens_total "
        "entente_rollout_busy_seconds_total",
        _ENGINES,
        PLAYED,
    ),
    **_rows("entente_cached_prompt_tokens_total", _ENGINES, VLLM, "inference.engine = vllm"),
    **_rows("entente_weight_switches_total", _ENGINES, VLLM, "inference.opponent_engine = turns, with vllm"),
    **_rows(
        "entente_workers entente_workers_playing entente_workers_wanted entente_worker_replacements_left "
        "entente_weight_swap_seconds",
        _POOL,
        PLAYED,
    ),
    **_rows("entente_worker_restarts_total", _POOL, PLAYED, "an actor that died, hung or failed"),
    **_rows("entente_swap_failures_total", _POOL, SUPERVISED, "an engine that did not take weights"),
    **_rows(
        "entente_buffer_waiting entente_buffer_delivered entente_buffer_bytes entente_buffer_server_bytes",
        _BUFFER,
        PLAYED,
    ),
    **_rows("entente_buffer_server_bytes_limit", _BUFFER, PLAYED, "redis.url of a server with a maxmemory"),
    **_rows("entente_duplicate_episodes_total", _BUFFER, LEARNED, "an episode that was stored before"),
    **_rows("entente_poison_episodes_total", _BUFFER, LEARNED, "an episode that cannot be read"),
    **_rows(
        "entente_opponent_score entente_opponent_games_total entente_rating entente_rating_deviation "
        "entente_population_size",
        _LEAGUE,
        PLAYED,
    ),
    **_rows("entente_promotions_total", _LEAGUE, RATED,
            "opponents.promote_margin above 0, and a learner that is ahead"),
    **_rows("entente_curriculum_level", _LEAGUE, PLAYED, "opponents.matchmaking = curriculum"),
    **_rows(
        " ".join(
            f"entente_remote_{name}_total"
            for name in ("calls", "retries", "failures", "defects", "held", "prompt_tokens", "completion_tokens",
                         "usage_unknown", "cost")
        ),
        _PLAYERS,
        PLAYED,
        "opponents.remotes",
    ),
    **_rows(
        "entente_evaluation_mean_centers entente_evaluation_win_rate entente_evaluation_centers", _EVALUATION, PLAYED
    ),
    **_rows("entente_evaluation_centers_low entente_evaluation_centers_high", _EVALUATION, PLAYED,
            "evaluation.games_per_country above 1"),
    **_rows("ray_node_cpu_count ray_node_cpu_utilization ray_node_mem_used ray_node_mem_total "
            "ray_node_disk_utilization_percentage", _NODES, RAY, "Ray scraped too"),
    **_rows("ray_node_gpus_utilization ray_node_gram_used ray_node_gram_available", _NODES, RAY,
            "Ray scraped too, on a node with a GPU"),
    **_rows("ALERTS", "the alert rules, in Prometheus", SUPERVISED, "something wrong"),
}  # fmt: skip


def metrics_in(query: Query) -> list[str]:
    """The metrics of a query, in its order; a histogram's series count as the histogram."""
    found = re.findall(r"\b(?:entente_[a-z_]+|ray_[a-z_]+|ALERTS)\b", query.expr)
    named = [metric_of(name).name if name.startswith("entente_") else name for name in found]
    return list(dict.fromkeys(named))


def source_of(query: Query) -> str:
    """The test's source of a query: that of its first metric which not every run has."""
    sources = [SOURCES[name] for name in metrics_in(query)]
    return next((source.shown_by for source in sources if source.needs), sources[0].shown_by)


def shown_panels() -> Iterator[tuple[str, Panel]]:
    """Every panel with its dashboard's title."""
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            for panel in row.panels:
                yield dashboard.title.removeprefix("Entente: "), panel


def shown_metrics() -> set[str]:
    """The metrics of all panels."""
    return {name for _, panel in shown_panels() for query in panel.queries for name in metrics_in(query)}


def is_counter(name: str) -> bool:
    """Whether a metric is a counter of the catalogue; counters are served from 0 on, so 0 says nothing."""
    return name in CATALOGUE and CATALOGUE[name].kind == "counter"


def table() -> str:
    """The text of ``PANELS.md``."""
    lines = [
        "# What feeds the panels",
        "",
        "Every panel, the metrics that its queries read, and where these come from. Made by",
        "`python -m tests.system.support.monitoring.panel_sources`; a test takes each metric from a real",
        "source and asks every query of a real Prometheus, so that a panel which nothing feeds fails it.",
    ]
    board = ""
    for title, panel in shown_panels():
        if title != board:
            board = title
            lines += [
                "",
                f"## {title.capitalize()}",
                "",
                "| Panel | Metric | Fed by | Where there is |",
                "|---|---|---|---|",
            ]
        names = list(dict.fromkeys(name for query in panel.queries for name in metrics_in(query)))
        for number, name in enumerate(names):
            source = SOURCES[name]
            shown = "" if number else panel.title
            lines.append(f"| {shown} | `{name}` | {source.origin} | {source.needs} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
