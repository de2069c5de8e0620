"""How fast everything goes and where it waits: rollouts, learner, weights, replay buffer, nodes and GPUs."""

from __future__ import annotations

from services.metrics.dashboards.panels import (
    PERCENT,
    Board,
    Panel,
    Query,
    Row,
    counter,
    gauge,
    latest,
    rate,
    risen,
    series,
)

_MIB = 1 << 20  # Ray counts GPU memory in these
_BUSY = f"{risen('entente_learner_busy_seconds_total')} / {risen('entente_run_seconds_total')}"
_CACHED = f"{rate('entente_cached_prompt_tokens_total')} / {rate('entente_prompt_tokens_total')}"


def _quantile(share: float) -> str:
    buckets = f"sum by (le) (increase({series('entente_weight_swap_seconds_bucket')}[$window]))"
    return f"histogram_quantile({share}, {buckets})"


MACHINERY = Board(
    "entente-machinery",
    "Entente: throughput and machinery",
    "How fast everything goes, and where it waits.",
    (
        Row(
            "Throughput",
            (
                counter("entente_games_total", "Games per hour", 3600.0, text="Training games that ended."),
                counter("entente_decisions_total", "Decisions per second"),
                Panel(
                    "Tokens per second",
                    (
                        Query(rate("entente_completion_tokens_total"), "written"),
                        Query(rate("entente_prompt_tokens_total"), "of prompts"),
                        Query(rate("entente_learner_tokens_total"), "learned from"),
                    ),
                    text="Of the inference engines, forced tokens included, and of the learner.",
                    least=0.0,
                ),
                counter("entente_episodes_total", "Episodes used, a minute", 60.0),
            ),
        ),
        Row(
            "Who waits for whom",
            (
                Panel(
                    "Busy",
                    (
                        Query(_BUSY, "learner"),
                        Query(
                            f"{risen('entente_rollout_busy_seconds_total')} / {risen('entente_run_seconds_total')}"
                            f" / {latest('entente_workers')}",
                            "a rollout worker",
                        ),
                        Query(
                            f"{risen('entente_overlap_seconds_total')} / {risen('entente_run_seconds_total')}",
                            "both at once",
                        ),
                    ),
                    text="Share of the time spent on updates, and on games by a worker's engine. Learner low: add "
                    "workers. Workers low: the learner is the bottleneck, or rollout.max_staleness holds games back.",
                    unit=PERCENT,
                    least=0.0,
                ),
                gauge("entente_update_seconds", "Seconds of an update, waiting included", least=0.0),
                Panel(
                    "Staleness",
                    (
                        Query(latest("entente_staleness_updates"), "mean"),
                        Query(latest("entente_staleness_updates_max"), "largest"),
                        Query(latest("entente_staleness_updates_limit"), "limit"),
                    ),
                    text="How many updates trained turns lagged behind the learner.",
                    least=0.0,
                ),
                Panel(
                    "Time without an update",
                    (
                        Query(f"time() - {latest('entente_progress_timestamp_seconds')}", "since the last"),
                        Query(latest("entente_update_timeout_seconds"), "the run gives up at"),
                    ),
                    text="Updates and evaluations both count.",
                    unit="s",
                    least=0.0,
                ),
            ),
        ),
        Row(
            "Workers and weights",
            (
                Panel(
                    "Rollout workers",
                    (
                        Query(latest("entente_workers_playing"), "play"),
                        Query(latest("entente_workers_wanted"), "wanted"),
                        Query(latest("entente_workers"), "alive, those that load or leave included"),
                    ),
                    text="Between rollout.actors and rollout.max_actors, as many as the load asks for.",
                    least=0.0,
                ),
                Panel(
                    "Workers replaced",
                    (
                        Query(latest("entente_worker_restarts_total"), "in all"),
                        Query(latest("entente_worker_replacements_left"), "left before the run gives up"),
                        Query(latest("entente_run_restarts_total"), "starts of the whole run after a loss"),
                    ),
                    text="Workers that died, hung or whose engine failed, and rollout.max_replacements less these, "
                    "where it was not their node that went away. Without learner or replay server the whole run starts "
                    "again (run.max_restarts).",
                    least=0.0,
                ),
                Panel(
                    "Weights not taken",
                    (Query(risen("entente_swap_failures_total"), "{{cause}}"),),
                    text="Swaps that failed, by cause: the worker died, took too long, refused them; they were lost.",
                    least=0.0,
                    stacked=True,
                ),
                Panel(
                    "Seconds of a weight swap",
                    (
                        Query(_quantile(0.5), "half are faster"),
                        Query(_quantile(0.95), "95% are faster"),
                        Query(
                            f"{rate('entente_weight_swap_seconds_sum')} / {rate('entente_weight_swap_seconds_count')}",
                            "mean",
                        ),
                    ),
                    text="From publishing a version to an engine using it, decisions in flight included.",
                    unit="s",
                    least=0.0,
                ),
                gauge("entente_weight_bytes", "Size of the published weights", least=0.0),
                gauge("entente_policy_version", "Published version", least=0.0),
                counter("entente_weight_switches_total", "Turns of full weights in a vLLM engine, a minute", 60.0),
                Panel(
                    "Prompt tokens from vLLM's prefix cache",
                    (Query(_CACHED, "share"),),
                    text="0 with the torch engine, which counts none.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                ),
            ),
        ),
        Row(
            "Replay buffer",
            (
                Panel(
                    "Episodes in the buffer",
                    (
                        Query(latest("entente_buffer_waiting"), "waiting"),
                        Query(latest("entente_buffer_delivered"), "delivered, not acknowledged"),
                    ),
                    text="Delivered ones are acknowledged when the checkpoint that used them is on disk.",
                    least=0.0,
                    stacked=True,
                ),
                gauge("entente_buffer_bytes", "Size of these episodes", least=0.0),
                Panel(
                    "Memory of the replay server",
                    (
                        Query(latest("entente_buffer_server_bytes"), "used"),
                        Query(latest("entente_buffer_server_bytes_limit"), "maxmemory"),
                    ),
                    text="At its maxmemory the server takes no more episodes, and the run stops.",
                    unit="bytes",
                    least=0.0,
                ),
                Panel(
                    "Episodes that were not used",
                    (
                        Query(latest("entente_stale_episodes_total"), "too old"),
                        Query(latest("entente_duplicate_episodes_total"), "stored before"),
                        Query(latest("entente_poison_episodes_total"), "undecodable"),
                    ),
                    text="In all.",
                    least=0.0,
                ),
            ),
        ),
        Row(
            "Nodes and GPUs (Ray's own metrics, of all runs there)",
            (
                Panel(
                    "GPUs: busy",
                    (Query("ray_node_gpus_utilization", "{{instance}} GPU {{GpuIndex}}"),),
                    text="Needs Ray scraped too, see the README of services/metrics.",
                    unit="percent",
                    least=0.0,
                    most=100.0,
                ),
                Panel(
                    "GPUs: memory used",
                    (Query(f"ray_node_gram_used * {_MIB}", "{{instance}} GPU {{GpuIndex}}"),),
                    text="The rest of the memory is in the panel beside it.",
                    unit="bytes",
                    least=0.0,
                ),
                Panel(
                    "GPUs: memory free",
                    (Query(f"ray_node_gram_available * {_MIB}", "{{instance}} GPU {{GpuIndex}}"),),
                    text="Near 0 an engine or the learner will fail.",
                    unit="bytes",
                    least=0.0,
                ),
                Panel(
                    "Nodes",
                    (Query("count(ray_node_cpu_count)", "nodes"), Query("sum(ray_node_cpu_count)", "CPU cores")),
                    text="As autoscaling brings them.",
                    least=0.0,
                ),
                Panel(
                    "CPUs: busy",
                    (Query("ray_node_cpu_utilization", "{{instance}}"),),
                    text="Of all cores of a node.",
                    unit="percent",
                    least=0.0,
                    most=100.0,
                ),
                Panel(
                    "Memory",
                    (Query("ray_node_mem_used / ray_node_mem_total", "{{instance}}"),),
                    text="Share of a node's memory; near 1 Ray kills workers.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                ),
                Panel(
                    "Disk",
                    (Query("ray_node_disk_utilization_percentage", "{{instance}}"),),
                    text="A full disk stops checkpoints and the replay server.",
                    unit="percent",
                    least=0.0,
                    most=100.0,
                ),
            ),
        ),
    ),
)
