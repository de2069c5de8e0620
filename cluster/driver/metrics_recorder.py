"""What a run tells the world: metrics, the live display and ``summary.json``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from cluster.actors.messages import BlockReport, UpdateReport
from cluster.configs.schema import Config
from cluster.evaluation.evaluation_games import describe
from cluster.runs.counters import (
    COUNTERS,
    COUNTRY_EPISODES,
    ENGINE,
    MADE_AGAIN,
    NONFINITE,
    OVERLAP,
    REMOTES,
    RUN_RESTARTS,
    SERVER_MEMORY,
    SWAP_FAILURES,
    limits,
)
from cluster.runs.folder import RunFolder
from cluster.runs.imitation_report import read_report
from cluster.runs.provenance import commit, provenance
from cluster.runs.recovery import restarts
from grpo_core.errors import DivergenceError
from services.metrics.catalogue import Value, key
from services.metrics.display.display import Display
from services.metrics.display.state import DisplaySnapshot
from services.metrics.jsonl import JsonlSink, MetricsLine, read_metrics
from services.metrics.prometheus_exporter import Exporter
from services.metrics.sink import FanOut, MetricsSink

PROGRESS_TIME = "entente_progress_timestamp_seconds"


class MetricsRecorder:
    """Counts, shows and records; knows nothing of Ray."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        display: Display,
        resume_after: int | None,
        exporter: Exporter | None = None,
    ) -> None:
        """Open the sinks.

        Args:
            config: the run's configuration.
            folder: where ``metrics.jsonl`` and ``summary.json`` lie.
            display: already entered.
            resume_after: the version a resumed run goes on from; None for a new run.
            exporter: where Prometheus scrapes; closed with this object.

        Raises:
            MetricsError: the folder holds another run's measurements.
        """
        self.display = display
        self._config = config
        self._folder = folder
        summary: dict[str, Any] = {} if resume_after is None else folder.read_summary()
        before = [] if resume_after is None else self._recorded_lines()  # all of them: the sink cuts some
        sinks: list[MetricsSink] = [JsonlSink(folder.metrics, resume_after)]
        if exporter is not None:
            display.log(f"metrics at {exporter.url}")
            sinks.append(exporter)
        self._sink = FanOut(*sinks)
        self._exporter = exporter
        self._engine_counters = ENGINE | REMOTES if config.opponents.remotes else ENGINE
        self._counters = dict.fromkeys((*COUNTERS, *self._engine_counters.values()), 0.0)
        if resume_after is not None:
            self._recover_counters(before, resume_after)
            # What no line of an update tells: the summary is written at a run's end, whatever ended it.
            for name, told in ((NONFINITE, "nonfinite_updates"), ("entente_games_total", "games")):
                self._counters[name] = max(self._counters[name], float(summary.get(told, 0)))
        self._counters[RUN_RESTARTS] = len(restarts(folder.path))
        self._before = dict(self._counters)
        self._version = resume_after or 0
        self._recorded = self._last_recorded() if resume_after is not None else 0
        self._swap_seconds: list[float] = []
        self._workers: dict[str, float] = {}
        self._engine_seen: dict[str, float] = {}
        self._begin: tuple[float, dict[str, float]] | None = None
        self._clock = time.monotonic()
        self._rows: list[dict[str, Any]] = list(summary.get("evaluations", []))
        self._training: dict[str, float] = dict(summary.get("training", {}))
        self._commit, self._provenance = commit(), provenance()  # before the loop: git may take seconds
        self._opened = time.monotonic()
        self._wall_before = float(summary.get("wall_seconds", 0.0))
        left = {"entente_worker_replacements_left": float(config.rollout.max_replacements)}
        self._serve(_highest(before))  # of updates that are made again, too
        self._serve({**self._counters, **limits(config), **self._versions(self._version), **left})

    def __enter__(self) -> Self:
        """Nothing to do; the sinks are open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the summary as far as it goes and close the sinks."""
        if isinstance(error, DivergenceError):
            self._counters[NONFINITE] += 1
            self._sink.record(self._version, {NONFINITE: self._counters[NONFINITE]})
        self.training_ends()
        self._sink.close()

    def catch_up(self, report: UpdateReport | None, workers: int, league: Mapping[str, float]) -> None:
        """After a restart: record the update behind the checkpoint, where the last process died before it could."""
        if report is not None and report.version > self._recorded:
            self.update(report, workers, 0, {}, league)

    def block(self, report: BlockReport) -> None:
        """A block was played."""
        self._counters["entente_games_total"] += report.games
        # At once, so that it is seen whether games are played while an update is waited for.
        self._serve({"entente_games_total": self._counters["entente_games_total"]})

    def workers(self, playing: int, wanted: int, replacements_left: int) -> None:
        """How many workers may be given games, are asked for by the load, and may still fail; served at once."""
        now = {
            "entente_workers_playing": float(playing),
            "entente_workers_wanted": float(wanted),
            "entente_worker_replacements_left": float(replacements_left),
        }
        if now != self._workers:
            self._workers = now
            self._serve(now)

    def overlapped(self, seconds: float) -> None:
        """For so long the learner learned and games were played at the same time."""
        self._counters[OVERLAP] += seconds

    def swaps(self, seconds: Sequence[float]) -> None:
        """Weights arrived at engines."""
        self._swap_seconds.extend(seconds)

    def engine(self, stats: Mapping[str, float]) -> None:
        """Take the counters of engines and remote players; they begin anew when an actor is replaced."""
        for ours, name in self._engine_counters.items():
            now = stats.get(ours, 0.0)
            before = self._engine_seen.get(ours, 0.0)
            self._counters[name] += now - before if now >= before else now
            self._engine_seen[ours] = now

    def update(
        self,
        report: UpdateReport,
        workers: int,
        restarts: int,
        swap_failures: Mapping[str, int],
        league: Mapping[str, float],
    ) -> None:
        """Record and show a finished update.

        Args:
            report: the learner's.
            workers: alive.
            restarts: of workers, by this process so far.
            swap_failures: likewise, by cause.
            league: what is known of the opponents, keys of the catalogue.
        """
        counters = self._counters
        self._version = self._recorded = report.version
        counters["entente_episodes_total"] += report.episodes
        counters["entente_topped_up_episodes_total"] += report.topped_up_episodes
        counters["entente_learner_tokens_total"] += report.tokens
        counters["entente_learner_busy_seconds_total"] += report.busy_s
        name = "entente_worker_restarts_total"
        counters[name] = self._before[name] + restarts
        for cause, name in SWAP_FAILURES.items():
            counters[name] = self._before[name] + swap_failures.get(cause, 0)
        counters["entente_stale_episodes_total"] += report.stale_episodes
        counters["entente_defective_orders_total"] += report.defective_orders
        counters["entente_truncated_decisions_total"] += report.truncated
        for power, episodes in report.country_episodes.items():
            counters[COUNTRY_EPISODES[power]] += episodes
        if report.nonfinite:
            counters[NONFINITE] += 1
            self.display.log(f"update {report.version}: not finite, hence left out: {', '.join(report.nonfinite)}")
        now = time.monotonic()
        counters["entente_run_seconds_total"] += now - self._clock
        took, self._clock = now - self._clock, now
        values: dict[str, Value] = {
            **counters,
            **report.metrics,
            **league,
            **self._versions(report.version),
            "entente_update_seconds": took,
            "entente_workers": float(workers),
            **self._workers,
            "entente_weight_bytes": float(report.weight_bytes),
            "entente_buffer_waiting": report.buffer["waiting"],
            "entente_buffer_delivered": report.buffer["delivered"],
            "entente_buffer_bytes": report.buffer["bytes"],
            "entente_duplicate_episodes_total": report.buffer["duplicates"],
            "entente_poison_episodes_total": report.buffer["poison"],
        }
        for ours, name in SERVER_MEMORY.items():
            if ours in report.memory:
                values[name] = report.memory[ours]
        if self._swap_seconds:
            values["entente_weight_swap_seconds"] = self._swap_seconds
            self._swap_seconds = []
        self._sink.record(report.version, values)
        self._serve({PROGRESS_TIME: time.time()})
        throughput = self._throughput()
        metrics = report.metrics
        self.display.update(
            DisplaySnapshot(
                update=report.version,
                games=int(counters["entente_games_total"]),
                episodes=int(counters["entente_episodes_total"]),
                countries=report.countries,
                games_per_hour=throughput["games_per_hour"],
                decisions_per_second=throughput["decisions_per_second"],
                completion_tokens_per_second=throughput["completion_tokens_per_second"],
                learner_tokens_per_second=throughput["learner_tokens_per_second"],
                staleness=metrics.get("entente_staleness_updates"),
                loss=metrics.get("entente_loss"),
                kl=metrics.get("entente_kl"),
                entropy=metrics.get("entente_entropy"),
                start_centers=self._start_centers(),
            )
        )
        if report.version % self._config.learner.checkpoint_every == 0:
            self._write_summary()

    def training_begins(self) -> None:
        """From here on time and work count into the run's throughput."""
        self.display.stage("training")
        self._clock = time.monotonic()
        self._begin = (self._clock, dict(self._counters))
        self._serve({PROGRESS_TIME: time.time()})

    def training_ends(self) -> None:
        """Stop counting; evaluations are no training."""
        if self._begin is not None:
            for name, value in self._since_begin().items():
                self._training[name] = self._training.get(name, 0.0) + value
            self._begin = None
        self._write_summary()

    def evaluation(self, label: str, row: dict[str, Any], seconds: float) -> None:
        """Record one evaluation; ``label`` is ``untrained``, ``trained`` or a version."""
        against = str(row["against"])
        # A resumed run may measure the same checkpoint again; the newer row replaces the older.
        self._rows = [old for old in self._rows if (old["checkpoint"], old["against"]) != (row["checkpoint"], against)]
        self._rows.append({"label": label, **row, "seconds": round(seconds, 1)})
        values: dict[str, Value] = {key("entente_evaluation_centers", against=against): row["mean_centers"]}
        if row["mean_centers_ci95"] is not None:
            low, high = row["mean_centers_ci95"]
            values[key("entente_evaluation_centers_low", against=against)] = low
            values[key("entente_evaluation_centers_high", against=against)] = high
        for country, cell in row["by_country"].items():
            values[key("entente_evaluation_mean_centers", against=against, country=country)] = cell["mean_centers"]
            values[key("entente_evaluation_win_rate", against=against, country=country)] = cell["win_rate"]
        self._sink.record(self._version, values)
        self._serve({PROGRESS_TIME: time.time()})
        self.display.log(f"{label} policy against six {against}: {describe(row)}")
        self._write_summary()

    def _serve(self, values: Mapping[str, Value]) -> None:
        """To Prometheus alone: what is of the moment, or the same in every line of ``metrics.jsonl``."""
        if self._exporter is not None:
            self._exporter.record(self._version, values)

    @staticmethod
    def _versions(version: int) -> dict[str, Value]:
        return {"entente_updates_total": float(version), "entente_policy_version": float(version)}

    def _start_centers(self) -> dict[str, float]:
        for row in self._rows:
            if row["label"] == "untrained":
                return {country: cell["mean_centers"] for country, cell in row["by_country"].items()}
        return {}

    def _since_begin(self) -> dict[str, float]:
        if self._begin is None:
            return {}
        start, counters = self._begin
        work = {name: self._counters[name] - counters[name] for name in COUNTERS}
        return {
            "seconds": time.monotonic() - start,
            "games": work["entente_games_total"],
            "decisions": work["entente_decisions_total"],
            "completion_tokens": work["entente_completion_tokens_total"],
            "learner_tokens": work["entente_learner_tokens_total"],
        }

    def _throughput(self) -> dict[str, float | None]:
        """Rates over the wall time of training alone, in this process and the ones it resumed."""
        total = dict(self._training)
        for name, value in self._since_begin().items():
            total[name] = total.get(name, 0.0) + value
        seconds = total.get("seconds", 0.0)

        def rate(name: str, per: float = 1.0) -> float | None:
            return total.get(name, 0.0) / seconds * per if seconds > 0 else None

        return {
            "games_per_hour": rate("games", 3600.0),
            "decisions_per_second": rate("decisions"),
            "completion_tokens_per_second": rate("completion_tokens"),
            "learner_tokens_per_second": rate("learner_tokens"),
        }

    def _write_summary(self) -> None:
        training = dict(self._training)
        for name, value in self._since_begin().items():
            training[name] = training.get(name, 0.0) + value
        counters = self._counters
        self._folder.write_summary(
            {
                "run": self._config.run.name,
                "commit": self._commit,
                "config_digest": self._config.digest,
                "updates": self._version,
                "episodes": int(counters["entente_episodes_total"]),
                "games": int(counters["entente_games_total"]),
                "nonfinite_updates": int(counters[NONFINITE]),
                "wall_seconds": round(self._wall_before + time.monotonic() - self._opened, 1),
                "throughput": self._throughput(),
                "imitation": read_report(self._folder.imitated),
                "training": training,
                "evaluations": self._rows,
                "provenance": self._provenance,
            }
        )

    def _recorded_lines(self) -> list[MetricsLine]:
        return read_metrics(self._folder.metrics) if self._folder.metrics.exists() else []

    def _last_recorded(self) -> int:
        return max(
            (line.update for line in self._recorded_lines() if "entente_updates_total" in line.metrics), default=0
        )

    def _recover_counters(self, lines: Sequence[MetricsLine], resume_after: int) -> None:
        """Games, costs and losses of updates that a crash undid count; the updates themselves are made again."""
        for line in lines:
            for name in self._counters:
                value = line.metrics.get(name)
                if isinstance(value, float | int) and (line.update <= resume_after or name not in MADE_AGAIN):
                    self._counters[name] = float(value)


def _highest(lines: Sequence[MetricsLine]) -> dict[str, Value]:
    """The most that Prometheus may have seen of what is made again with the updates that a crash undid."""
    found: dict[str, Value] = {}
    for line in lines:
        for name in MADE_AGAIN:
            value = line.metrics.get(name)
            if isinstance(value, float | int):
                found[name] = max(float(value), float(found.get(name, 0.0)))  # type: ignore[arg-type]
    return found
