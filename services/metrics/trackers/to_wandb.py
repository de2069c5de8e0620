"""Weights & Biases: offline in the run folder unless the environment variable ``WANDB_MODE`` says otherwise."""

from __future__ import annotations

import os

from services.metrics.trackers.tracker import Evaluations, Replay, Series, TrackedRun

PROJECT = "entente"
_UPDATE = "update"  # the series that is the horizontal axis of all others


class RunTracker:
    """Writes a run under the run folder's own id, so that a resumed run goes on as the same one.

    wandb's own variables count: ``WANDB_MODE`` (online, offline, shared, disabled), ``WANDB_API_KEY``,
    ``WANDB_PROJECT``, ``WANDB_ENTITY``, ``WANDB_DIR`` and others. After a crash, updates that are made again are
    recorded again, at the same value of ``update``.
    """

    def __init__(self, run: TrackedRun) -> None:
        # Else artefacts would lie in the home folder until ``wandb sync``.
        for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR"):
            os.environ.setdefault(variable, os.path.join(run.folder, "artefacts"))
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its own crash reports would go over the network
        import wandb  # reads the variables

        self._wandb = wandb
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=os.environ.get("WANDB_NAME", run.name),
            id=run.run_id,
            resume="allow",
            dir=os.environ.get("WANDB_DIR", run.folder),
            mode=None if "WANDB_MODE" in os.environ else "offline",
            config=run.config,
            # This process has no program, output or work of its own that a page should show.
            settings=wandb.Settings(
                host=os.environ.get("WANDB_HOST", ""),  # else the machine's name
                console="off",
                disable_git=True,
                disable_code=True,
                disable_job_creation=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_stats=True,
            ),
        )
        self._run.define_metric(_UPDATE, hidden=True)
        self._run.define_metric("*", step_metric=_UPDATE)

    def series(self, message: Series) -> None:
        """Record an update's measurements."""
        values = {
            name: value if isinstance(value, float) else self._wandb.Histogram(value)
            for name, value in message.values.items()
            if isinstance(value, float) or value
        }
        self._run.log({_UPDATE: message.update, **values})

    def evaluations(self, message: Evaluations) -> None:
        """Record the table."""
        table = self._wandb.Table(columns=message.columns, data=message.rows, allow_mixed_types=True)
        self._run.log({_UPDATE: message.update, "evaluations": table})

    def replay(self, message: Replay) -> None:
        """Keep the games as an artefact of type ``replay``."""
        artifact = self._wandb.Artifact(
            f"{self._run.id}-{message.name}", type="replay", metadata={_UPDATE: message.update}
        )
        for file in message.files:
            artifact.add_file(file)
        self._run.log_artifact(artifact)

    def finish(self) -> None:
        """Write or upload everything."""
        self._run.finish()
