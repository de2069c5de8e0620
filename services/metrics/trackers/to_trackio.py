"""trackio: a local database below the run folder, unless its environment variables name another place or a Space."""

from __future__ import annotations

import os

from services.metrics.trackers.tracker import Evaluations, Replay, Series, TrackedRun

PROJECT = "entente"


class RunTracker:
    """Writes a run named by the run folder's own id, so that a resumed run goes on as the same one.

    trackio's own variables count: ``TRACKIO_DIR``, ``TRACKIO_PROJECT``, ``TRACKIO_SPACE_ID``, ``TRACKIO_SERVER_URL``
    and others. After a crash, updates that are made again are recorded again, at the same step.
    """

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("TRACKIO_DIR", run.folder)
        import trackio  # reads the variable

        self._trackio = trackio
        self._run = trackio.init(
            os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=run.run_id,
            config={**run.config, "run_name": run.name},
            resume="allow",
            embed=False,
            # What this process uses tells nothing about the run; the catalogue has the machine's figures.
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def series(self, message: Series) -> None:
        """Record an update's measurements."""
        values = {
            name: value if isinstance(value, float) else self._trackio.Histogram(value)
            for name, value in message.values.items()
            if isinstance(value, float) or value
        }
        self._run.log(values, step=message.update)

    def evaluations(self, message: Evaluations) -> None:
        """Record the table."""
        table = self._trackio.Table(columns=message.columns, data=message.rows)
        self._run.log({"evaluations": table}, step=message.update)

    def replay(self, message: Replay) -> None:
        """Keep the games as an artefact of type ``replay``."""
        artifact = self._trackio.Artifact(
            f"{self._run.name}-{message.name}", type="replay", metadata={"update": message.update}
        )
        for file in message.files:
            artifact.add_file(file)
        self._run.log_artifact(artifact)

    def finish(self) -> None:
        """Write or send everything."""
        self._run.finish()
