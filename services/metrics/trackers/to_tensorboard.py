"""TensorBoard: event files, which ``tensorboard --logdir RUN/trackers/tensorboard`` shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from services.metrics.trackers.tracker import Cell, Evaluations, Replay, Series, TrackedRun


class RunTracker:
    """Writes one event file a process; updates that a crash undid are hidden by those made again."""

    def __init__(self, run: TrackedRun) -> None:
        self._folder = Path(run.folder)
        purge = None if run.resume_after is None else run.resume_after + 1
        self._writer: Any = SummaryWriter(str(self._folder), purge_step=purge)
        self._writer.add_text("config", f"```json\n{json.dumps(run.config, indent=2)}\n```", run.resume_after or 0)

    def series(self, message: Series) -> None:
        """Record an update's measurements as scalars and histograms."""
        for name, value in message.values.items():
            if isinstance(value, float):
                self._writer.add_scalar(name, value, message.update, walltime=message.time)
            elif value:
                self._writer.add_histogram(name, np.array(value), message.update, walltime=message.time)
        self._writer.flush()

    def evaluations(self, message: Evaluations) -> None:
        """Record the table as text, which TensorBoard renders from Markdown."""
        lines = [_line(message.columns), _line(["---"] * len(message.columns)), *map(_line, message.rows)]
        self._writer.add_text("evaluations", "\n".join(lines), message.update)
        self._writer.flush()

    def replay(self, message: Replay) -> None:
        """Copy the games into the folder, because TensorBoard has no artefacts; a text names the copies."""
        target = self._folder / "replays" / message.name
        target.mkdir(parents=True, exist_ok=True)
        copies = [shutil.copy2(file, target) for file in message.files]
        listed = "\n".join(f"- `{Path(copy).relative_to(self._folder)}`" for copy in copies)
        self._writer.add_text(f"replays/{message.name}", listed, message.update)
        self._writer.flush()

    def finish(self) -> None:
        """Close the event file."""
        self._writer.close()


def _line(cells: Sequence[Cell]) -> str:
    shown = (f"{cell:.4g}" if isinstance(cell, float) else "" if cell is None else str(cell) for cell in cells)
    return f"| {' | '.join(shown)} |"
