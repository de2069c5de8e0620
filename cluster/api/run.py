"""A run's folder as an object: its configuration, results, measurements and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.api.rows import Rows
from cluster.configs.schema import Config
from cluster.runs.folder import RunFolder

if TYPE_CHECKING:
    from opponents.population.member import Member


class Run:
    """A run on disk, which may still be training: every access reads its files again.

    ``evaluate``, ``play`` and ``open_player`` accept it as a player: its newest checkpoint.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._folder = RunFolder(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<entente.Run {self.path}>"

    @property
    def config(self) -> Config:
        """The run's resolved configuration. Raises RunError if there is no run, ConfigError if it cannot be used."""
        return self._folder.stored_config()

    @property
    def summary(self) -> Mapping[str, Any]:
        """What ``summary.json`` holds: totals, throughput and evaluations; empty before the first update.

        Raises RunError if the file is damaged.
        """
        return self._folder.read_summary()

    @property
    def evaluations(self) -> Rows:
        """The run's evaluations in the order in which they were made, with rows as ``evaluate`` returns them."""
        return Rows(self.summary.get("evaluations", []))

    def metrics(self) -> Rows:
        """A row for each measurement: ``update``, ``time`` (unix seconds), and the metrics by name; none at first.

        An evaluation adds a row to that of its update, with its own metrics alone; histograms are lists. Raises
        MetricsError if the file is damaged.
        """
        from services.metrics.jsonl import read_metrics

        if not self._folder.metrics.exists():
            return Rows()
        lines = read_metrics(self._folder.metrics)
        return Rows({"update": line.update, "time": line.time, **line.metrics} for line in lines)

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The folder of each whole checkpoint by its version (updates of the learner), the oldest first."""
        from grpo_core.checkpoints.folders import checkpoint_versions

        return {version: self._folder.checkpoints / str(version) for version in sorted(checkpoint_versions(self.path))}

    @property
    def population(self) -> tuple[Member, ...]:
        """The opponents in the order they joined, retired ones included; none before training has begun.

        Raises PopulationError if the file is damaged.
        """
        from opponents.population.population import Population

        if not self._folder.population.exists():
            return ()
        return tuple(Population.load(self._folder.population).members)

    def report(self, *, progress: bool = False) -> Path:
        """Write the run's ``report.html`` and return its path; ``progress`` shows on stderr which games are drawn.

        Raises RunError for a run of another format, ReportError if the run's records cannot be read, StorageError if
        the page cannot be written.
        """
        from cluster.runs.progress_bars import progress_bars
        from services.reports.run_report.run_report import write_report

        self._folder.check_format()
        config = self._folder.stored_config() if self._folder.config.exists() else Config()
        with progress_bars() if progress else nullcontext() as add_bar:
            return write_report(
                self.path,
                config.world.measured,
                type(config)().model_dump(mode="json"),
                add_bar,
                config.world.press_story,
            )


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Open the run in a folder.

    Raises RunError if there is no run or one of another format, ConfigError if its configuration cannot be used.
    """
    run = Run(folder)
    run._folder.stored_config()
    return run
