"""The dashboard of throughput and waiting: rollouts, learner, weights, replay buffer, nodes and GPUs."""

from __future__ import annotations

from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Panel,
    Query,
    chart,
    counter,
    games_per_hour,
    gauge,
    increase,
    latest,
    pace,
    rate,
    row,
    series,
    share_chart,
    value,
)

_MIB = 1 << 20  # Ray counts GPU memory in these
_NODE, _GPU = "{{instance}}", "{{instance}} GPU {{GpuIndex}}"
_CACHED = f"{rate('entente_cached_prompt_tokens_total')} / {rate('entente_prompt_tokens_total')}"


def _quantile(share: float) -> str:
    buckets = f"sum by (le) (increase({series('entente_weight_swap_seconds_bucket')}[$window]))"
    return f"histogram_quantile({share}, {buckets})"


def _ray(title: str, unit: str, expr: str, legend: str, text: str) -> Panel:
    """Return the chart of one of Ray's own metrics."""
    highest = {"percent": 100.0, PERCENT: 1.0}.get(unit)
    return chart(title, Query(expr, legend), text=text, unit=unit, maximum=highest)


MACHINERY = Dashboard(
    "entente-machinery",
    "Entente: throughput and machinery",
    "Throughput, and where time is spent waiting.",
    (
        row(
            "Throughput (time and work of evaluations left out)",
            chart("Games per hour", Query(games_per_hour(), "games"), text="Training games that ended."),
            chart(
                "Decisions per second",
                Query(pace("entente_decisions_total"), "decisions"),
                text="Of the learner and of frozen policies, in all inference engines.",
            ),
            chart(
                "Tokens per second",
                Query(pace("entente_completion_tokens_total"), "written"),
                Query(pace("entente_prompt_tokens_total"), "of prompts"),
                Query(pace("entente_learner_tokens_total"), "learned from"),
                text="In the inference engines, forced tokens included, and in the learner.",
            ),
            chart(
                "Episodes used, a minute",
                Query(f"60 * {pace('entente_episodes_total')}", "episodes"),
                text="Episodes that the learner used.",
            ),
        ),
        row(
            "Waiting",
            chart(
                "Busy",
                Query(pace("entente_learner_busy_seconds_total"), "learner"),
                Query(
                    f"{pace('entente_rollout_busy_seconds_total')} / {latest('entente_workers')}",
                    "a rollout worker",
                ),
                Query(pace("entente_overlap_seconds_total"), "both at once"),
                text="Share of the time spent on updates, and on games by a worker's engine. Learner low: add workers. "
                "Workers low: the learner is the bottleneck, or rollout.max_staleness holds games back.",
                unit=PERCENT,
            ),
            gauge("entente_update_seconds", "Seconds of an update, waiting included"),
            chart(
                "Staleness",
                value("entente_staleness_updates", "mean"),
                value("entente_staleness_updates_max", "largest"),
                value("entente_staleness_updates_limit", "limit"),
                text="How many updates trained turns lagged behind the learner.",
            ),
            chart(
                "Time without an update",
                Query(f"time() - {latest('entente_progress_timestamp_seconds')}", "since the last"),
                value("entente_update_timeout_seconds", "the run gives up at"),
                text="Updates and evaluations both count.",
                unit="s",
            ),
        ),
        row(
            "Workers and weights",
            chart(
                "Rollout workers",
                value("entente_workers_playing", "play"),
                value("entente_workers_wanted", "wanted"),
                value("entente_workers", "alive, starting and leaving ones included"),
                text="Between rollout.actors and rollout.max_actors, by the load.",
            ),
            chart(
                "Workers replaced",
                value("entente_worker_restarts_total", "in all"),
                value("entente_worker_replacements_left", "left before the run gives up"),
                value("entente_run_restarts_total", "starts of the whole run after a loss"),
                text="Workers that died, hung or whose engine failed, and how many more may fail "
                "(rollout.max_replacements; lost nodes do not count). A run that loses its learner or replay server "
                "starts again (run.max_restarts).",
            ),
            chart(
                "Failed weight swaps",
                Query(increase("entente_swap_failures_total"), "{{cause}}"),
                text="By cause: the worker died, took too long or refused the weights, or the weights were lost.",
                stacked=True,
            ),
            chart(
                "Seconds of a weight swap",
                Query(_quantile(0.5), "half are faster"),
                Query(_quantile(0.95), "95% are faster"),
                Query(
                    f"{rate('entente_weight_swap_seconds_sum')} / {rate('entente_weight_swap_seconds_count')}", "mean"
                ),
                text="From publishing a version to an engine using it, decisions in flight included.",
                unit="s",
            ),
            gauge("entente_weight_bytes", "Size of the published weights"),
            gauge("entente_policy_version", "Published version"),
            counter("entente_weight_switches_total", "Switches of full weights in a vLLM engine, a minute", 60.0),
            share_chart(
                "Prompt tokens from vLLM's prefix cache",
                Query(_CACHED, "share"),
                text="Always 0 with the torch engine.",
            ),
        ),
        row(
            "Replay buffer",
            chart(
                "Episodes in the buffer",
                value("entente_buffer_waiting", "waiting"),
                value("entente_buffer_delivered", "delivered, not acknowledged"),
                text="Delivered ones are acknowledged when the checkpoint that used them is on disk.",
                stacked=True,
            ),
            gauge("entente_buffer_bytes", "Size of these episodes"),
            chart(
                "Memory of the replay server",
                value("entente_buffer_server_bytes", "used"),
                value("entente_buffer_server_bytes_limit", "maxmemory"),
                text="At maxmemory the server refuses episodes, and the run stops.",
                unit="bytes",
            ),
            chart(
                "Episodes that were not used",
                value("entente_stale_episodes_total", "too old"),
                value("entente_duplicate_episodes_total", "stored before"),
                value("entente_poison_episodes_total", "undecodable"),
                text="Totals of the run.",
            ),
        ),
        row(
            "Nodes and GPUs (Ray's own metrics, of all runs there)",
            _ray(
                "GPUs: busy",
                "percent",
                "ray_node_gpus_utilization",
                _GPU,
                "Needs Ray scraped too, see the README of services/metrics.",
            ),
            _ray("GPUs: memory used", "bytes", f"ray_node_gram_used * {_MIB}", _GPU, "The next panel has the rest."),
            _ray(
                "GPUs: memory free",
                "bytes",
                f"ray_node_gram_available * {_MIB}",
                _GPU,
                "Near 0, an engine or the learner fails.",
            ),
            chart(
                "Nodes",
                Query("count(ray_node_cpu_count)", "nodes"),
                Query("sum(ray_node_cpu_count)", "CPU cores"),
                text="Autoscaling adds and removes them.",
            ),
            _ray("CPUs: busy", "percent", "ray_node_cpu_utilization", _NODE, "Of all cores of a node."),
            _ray(
                "Memory",
                PERCENT,
                "ray_node_mem_used / ray_node_mem_total",
                _NODE,
                "Share of a node's memory; near 1, Ray kills workers.",
            ),
            _ray(
                "Disk",
                "percent",
                "ray_node_disk_utilization_percentage",
                _NODE,
                "A full disk stops checkpoints and the replay server.",
            ),
        ),
    ),
)
