"""Records a run's metrics, shows them in the live display, and writes ``summary.json``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster.actors.messages import UpdateReport
from cluster.configs.schema import Config
from cluster.configs.shareable import shareable
from cluster.driver.run_summary import MUTED, TRAINED, RunSummary
from cluster.runs.counters import (
    COUNTERS,
    ENGINE,
    ENGINE_WORK,
    MADE_AGAIN,
    NONFINITE,
    OVERLAP,
    REMOTES,
    RUN_RESTARTS,
    SERVER_MEMORY,
    SWAP_FAILURES,
    limits,
    role_episodes,
)
from cluster.runs.evaluation_rows import describe, evaluation_table
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import restarts
from cluster.runtime.stop_signals import shielded
from grpo_core.errors import DivergenceError, StorageError
from grpo_core.files import file_name
from grpo_core.types import RoleMeasures
from services.metrics.catalogue import Value, declare, evaluation_name, finite, key
from services.metrics.display.display import Display
from services.metrics.display.layout import DisplaySnapshot
from services.metrics.jsonl import JsonlSink, MetricsLine, read_metrics
from services.metrics.prometheus_exporter import Exporter
from services.metrics.sink import FanOut, MetricsSink
from services.metrics.trackers.client import FLUSH_S, Trackers
from services.metrics.trackers.tracker import TrackedRun

PROGRESS_TIME = "entente_progress_timestamp_seconds"
EVALUATING = "entente_evaluating"
WORKER_RESTARTS = "entente_worker_restarts_total"
HURRIED_FLUSH_S = 10.0  # for the trackers of a run that is stopped or lost


class MetricsRecorder:
    """Counts, shows and records a run's events; it does not use Ray."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        display: Display,
        resume_after: int | None,
        exporter: Exporter | None = None,
    ) -> None:
        """Open the sinks; ``exporter`` stays open, for it outlives restarts of the run.

        ``resume_after`` is the version from which a resumed run continues; None for a new run.

        Raises MetricsError if the folder holds another run's measurements, or a metric of the world's roles would have
        the name of another.
        """
        self.display = display
        self._checkpoint_every = config.learner.checkpoint_every
        self._evaluation = config.evaluation
        self._world = config.world
        self._measured = self._world.measured
        declare(self._measured)
        self._role_episodes = role_episodes(self._measured)
        self._made_again = (*MADE_AGAIN, *self._role_episodes.values())
        updates, press = config.learner.updates, self._world.press_summary
        self._summary = RunSummary(folder, config.run.name, config.digest, resume_after, updates, press)
        recorded = folder.metrics.exists() and resume_after is not None
        before = read_metrics(folder.metrics) if recorded else []  # all lines: the sink removes some
        self._lines = JsonlSink(folder.metrics, resume_after)
        if exporter is not None:
            display.log(f"metrics at {exporter.url}")
        self._exporter = exporter
        self._version = resume_after or 0
        self._recorded = _last_update(read_metrics(folder.metrics)) if recorded else 0
        self._engine_counters = ENGINE | REMOTES if config.opponents.remotes else ENGINE
        names = (*COUNTERS, *self._role_episodes.values(), *self._engine_counters.values())
        self._counters = dict.fromkeys(names, 0.0)
        self._recover_counters(before, self._version)
        for name, value in self._summary.stored_counters.items():
            self._counters[name] = max(self._counters[name], value)
        self._counters[RUN_RESTARTS] = len(restarts(folder.path))
        self._counters_before = dict(self._counters)
        self._swap_seconds: list[float] = []
        self._workers: dict[str, float] = {}
        self._engine_stats: dict[str, float] = {}  # when last read
        self._updated = time.monotonic()  # or, after an evaluation, so much later that its time does not count
        left = {"entente_worker_replacements_left": float(config.rollout.max_replacements)}
        self._serve(_highest(before, self._made_again))  # also of updates that are repeated
        bounds = limits(config.learner.updates, config.rollout)
        self._serve({**self._counters, **bounds, **_versions(self._version), **left, EVALUATING: 0.0})
        for row in self._summary.evaluations:
            if row["label"] != MUTED:
                self._serve(_evaluation_metrics(row, self._measured))
        self._trackers = _open_trackers(config, folder, resume_after)  # last: an error above would leave them running
        sinks: list[MetricsSink] = [self._lines, self._trackers]
        if exporter is not None:
            sinks.append(exporter)
        self._sink = FanOut(*sinks)

    def __enter__(self) -> Self:
        """Nothing to do; the sinks are open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the summary so far and close the file of measurements.

        Raises StorageError if the summary cannot be written, unless another error is on its way.
        """
        try:
            self._serve({"entente_workers": 0.0, "entente_workers_playing": 0.0})
            if isinstance(error, DivergenceError):
                self._counters[NONFINITE] += 1
                self._sink.record(self._version, {NONFINITE: self._counters[NONFINITE]})
            self.training_ends()
        except StorageError as refused:
            if error is None:
                raise
            self.display.log(str(refused))
        finally:
            try:
                self._trackers.close(FLUSH_S if error is None else HURRIED_FLUSH_S)
                self._show_notices()
            finally:
                self._lines.close()

    def catch_up(self, report: UpdateReport | None, workers: int, league: Mapping[str, float]) -> None:
        """After a restart, record the checkpoint's update if the last process died before it did."""
        if report is not None and report.version > self._recorded:
            self.update(report, workers, 0, {}, league)

    def played(self, games: int) -> None:
        """Count played games, and export the number at once, because an update may take long."""
        self._counters["entente_games_total"] += games
        self._serve({"entente_games_total": self._counters["entente_games_total"]})

    def workers(self, ready: int, wanted: int, replacements_left: int) -> None:
        """Export how many workers accept games, are wanted for the load, and may still fail."""
        now = {
            "entente_workers_playing": float(ready),
            "entente_workers_wanted": float(wanted),
            "entente_worker_replacements_left": float(replacements_left),
        }
        if now != self._workers:
            self._workers = now
            self._serve(now)

    def overlapped(self, seconds: float) -> None:
        """Count seconds in which the learner was busy and games were played."""
        self._counters[OVERLAP] += seconds

    def swaps(self, seconds: Sequence[float]) -> None:
        """Record how long each engine took for new weights."""
        self._swap_seconds.extend(seconds)

    def engine(self, stats: Mapping[str, float], leave_out: Collection[str] = ()) -> None:
        """Add the counters of engines and remote players, which may restart at 0, except those to ``leave_out``."""
        for ours, name in self._engine_counters.items():
            now = stats.get(ours, 0.0)
            before = self._engine_stats.get(ours, 0.0)
            if ours not in leave_out:
                self._counters[name] += now - before if now >= before else now
            self._engine_stats[ours] = now

    @contextmanager
    def evaluating(self, stats: Callable[[], Mapping[str, float]]) -> Iterator[None]:
        """Leave what happens inside the block out of the run's time and throughput: an evaluation is not training.

        That includes the work of training games in flight, which share the engines with it. ``stats`` returns the
        pool's counters.
        """
        self._serve({EVALUATING: 1.0})
        start, before, training = time.monotonic(), stats(), self._summary.training
        self.engine(before)
        self._summary.training_ends(self._counters)
        try:
            yield
        finally:  # the exporter outlives a run that is lost meanwhile
            self._serve({EVALUATING: 0.0})
        after = stats()
        self.engine(after, leave_out=ENGINE_WORK)
        self._updated += time.monotonic() - start
        if training:
            # Games that ended meanwhile are reported later, and must not count then.
            ended = self._counters["entente_games_total"] + after["games"] - before["games"]
            self._summary.training_begins({**self._counters, "entente_games_total": ended})

    def update(
        self,
        report: UpdateReport,
        workers: int,
        restarts: int,
        swap_failures: Mapping[str, int],
        league: Mapping[str, float],
    ) -> None:
        """Record and show a finished update, with the number of live workers and the league's metrics.

        ``restarts`` and ``swap_failures`` (by cause) count what happened in this process so far.
        """
        self._version = self._recorded = report.version
        self._count_update(report, restarts, swap_failures)
        now = time.monotonic()
        took, self._updated = now - self._updated, now
        self._counters["entente_run_seconds_total"] += took
        measured: dict[str, Value] = {**report.metrics, **league}
        nonfinite = {*report.nonfinite, *(measured.keys() - finite(measured).keys())}
        if nonfinite:
            self._counters[NONFINITE] += 1
            self.display.log(f"update {report.version}: not finite, hence left out: {', '.join(sorted(nonfinite))}")
        values: dict[str, Value] = {
            **self._counters,
            **finite(measured),
            **_versions(report.version),
            "entente_update_seconds": took,
            "entente_workers": float(workers),
            **self._workers,
            "entente_weight_bytes": float(report.weight_bytes),
            "entente_buffer_waiting": report.buffer["waiting"],
            "entente_buffer_delivered": report.buffer["delivered"],
            "entente_buffer_bytes": report.buffer["bytes"],
            "entente_duplicate_episodes_total": report.buffer["duplicates"],
            "entente_poison_episodes_total": report.buffer["poison"],
            **{name: report.memory[ours] for ours, name in SERVER_MEMORY.items() if ours in report.memory},
        }
        if self._swap_seconds:
            values["entente_weight_swap_seconds"] = self._swap_seconds
            self._swap_seconds = []
        self._sink.record(report.version, values)
        self._serve({PROGRESS_TIME: time.time()})
        self._show_update(report)
        self._show_notices()
        if report.version % self._checkpoint_every == 0:
            self._summary.write(self._version, self._counters)

    @property
    def training_seconds(self) -> float:
        """Wall time of the run's training so far, evaluations and downtime left out."""
        return self._summary.training_seconds(self._counters)

    def training_begins(self) -> None:
        """From here on time and work count into the run's throughput."""
        self.display.stage("training")
        self._updated = time.monotonic()
        self._summary.training_begins(self._counters)
        self._serve({PROGRESS_TIME: time.time()})

    def training_ends(self) -> None:
        """Stop counting time and work."""
        self._summary.training_ends(self._counters)
        self._summary.write(self._version, self._counters)

    def has_evaluation(self, label: str, checkpoint: str, against: str) -> bool:
        """Whether the summary has this evaluation with the configured games; the last one may stand for an earlier."""
        games = len(self._world.evaluation_games(self._evaluation, against, 0))
        facts = self._world.evaluation_facts(self._evaluation)
        labels = {label} if label == MUTED else {label, TRAINED}
        return self._summary.has_evaluation(labels, checkpoint, against, games, facts)

    def evaluation(self, label: str, row: dict[str, Any], seconds: float, saved_games: Sequence[Path] = ()) -> None:
        """Record one evaluation; ``label`` is ``untrained``, ``imitated``, ``trained`` or a version.

        ``saved_games`` are files of some of its games, which the trackers keep.
        """
        self._summary.add_evaluation(label, row, seconds)
        if label != MUTED:
            self._sink.record(self._version, _evaluation_metrics(row, self._measured))
        facts = self._world.evaluation_facts(self._evaluation)
        columns, rows = evaluation_table(self._summary.evaluations, self._measured, facts)
        self._trackers.evaluations(self._version, columns, rows)
        self._trackers.replay(self._version, file_name(f"{label}-{row['against']}"), saved_games)
        self._serve({PROGRESS_TIME: time.time()})
        met = self._world.opposition(row["against"])
        self.display.log(f"{label} policy {met}: {describe(row, self._measured, facts)}")
        self._summary.write(self._version, self._counters)

    def _count_update(self, report: UpdateReport, restarts: int, swap_failures: Mapping[str, int]) -> None:
        counters, before = self._counters, self._counters_before
        counters["entente_episodes_total"] += report.episodes
        counters["entente_topped_up_episodes_total"] += report.topped_up_episodes
        counters["entente_learner_tokens_total"] += report.tokens
        counters["entente_learner_busy_seconds_total"] += report.busy_s
        counters["entente_stale_episodes_total"] += report.stale_episodes
        counters["entente_defective_orders_total"] += report.defective_orders
        counters["entente_truncated_decisions_total"] += report.truncated
        for role, episodes in report.role_episodes.items():
            counters[self._role_episodes[role]] += episodes
        counters[WORKER_RESTARTS] = before[WORKER_RESTARTS] + restarts
        for cause, name in SWAP_FAILURES.items():
            counters[name] = before[name] + swap_failures.get(cause, 0)

    def _show_update(self, report: UpdateReport) -> None:
        rates: dict[str, Any] = self._summary.throughput(self._counters)
        self.display.update(
            DisplaySnapshot(
                update=report.version,
                games=int(self._counters["entente_games_total"]),
                episodes=int(self._counters["entente_episodes_total"]),
                roles=report.roles,
                measured=self._measured,
                **rates,
                staleness=report.metrics.get("entente_staleness_updates"),
                loss=report.metrics.get("entente_loss"),
                kl=report.metrics.get("entente_kl"),
                entropy=report.metrics.get("entente_entropy"),
                start_values=self._summary.start_values(self._measured),
            )
        )

    def _show_notices(self) -> None:
        for notice in self._trackers.notices():
            self.display.log(notice)

    def _serve(self, values: Mapping[str, Value]) -> None:
        """Export values to Prometheus alone: momentary ones, or ones that ``metrics.jsonl`` need not repeat."""
        if self._exporter is not None:
            self._exporter.record(self._version, values)

    def _recover_counters(self, lines: Sequence[MetricsLine], resume_after: int) -> None:
        """Restore the counters; games, costs and losses also from updates that a crash undid and that are repeated."""
        for line in lines:
            for name in self._counters:
                value = line.metrics.get(name)
                if isinstance(value, float | int) and (line.update <= resume_after or name not in self._made_again):
                    self._counters[name] = float(value)


def _open_trackers(config: Config, folder: RunFolder, resume_after: int | None) -> Trackers:
    names = config.metrics.trackers
    if not names:
        return Trackers(())
    run = TrackedRun(config.run.name, folder.run_id, "", shareable(config), resume_after)
    with shielded():  # its threads and processes
        return Trackers.open(names, run, folder.trackers.absolute())


def _versions(version: int) -> dict[str, Value]:
    return {"entente_updates_total": float(version), "entente_policy_version": float(version)}


def _evaluation_metrics(row: Mapping[str, Any], measured: RoleMeasures) -> dict[str, Value]:
    against, name, column = str(row["against"]), evaluation_name(measured), measured.main.row_name
    values: dict[str, Value] = {key(name, against=against): row[column]}
    if row[f"{column}_ci95"] is not None:
        low, high = row[f"{column}_ci95"]
        values[key(f"{name}_low", against=against)] = low
        values[key(f"{name}_high", against=against)] = high
    for role, cell in row[measured.by_role].items():
        labels = {"against": against, measured.role_name: role}
        for measure in measured.leading:
            values[key(f"entente_evaluation_{measure.row_name}", **labels)] = cell[measure.row_name]
    return values


def _last_update(lines: Sequence[MetricsLine]) -> int:
    return max((line.update for line in lines if "entente_updates_total" in line.metrics), default=0)


def _highest(lines: Sequence[MetricsLine], names: Sequence[str]) -> dict[str, Value]:
    """Highest recorded values of the counters ``names``, which fall when a crash undoes updates."""
    found: dict[str, Value] = {}
    for line in lines:
        for name in names:
            value = line.metrics.get(name)
            if isinstance(value, float | int):
                found[name] = max(float(value), float(found.get(name, 0.0)))  # type: ignore[arg-type]
    return found
