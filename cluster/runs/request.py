"""Which run a training command asks for: its configuration, its folder, and whether a run there is gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.errors import ConfigError
from cluster.runs.folder import RunFolder
from cluster.runs.ray_job import check_run_dir, on_its_cluster


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be trained."""

    config: Config
    run_dir: Path
    resume: bool


def requested_run(
    source: str | None, overrides: Sequence[str], run_dir: Path | None, *, resume: bool, start_or_resume: bool
) -> RunRequest:
    """Make sense of what the command line says.

    ``resume`` takes the configuration that the run has stored, ``source`` only names its folder where ``run_dir`` does
    not. ``start_or_resume`` takes ``source`` in any case, which must then agree with what a run there has stored: so
    the same words start a run, go on with it, and go on with more updates once the file says so.

    Raises:
        ConfigError: there is too little to know the run by, or the configuration cannot be used.
        RunError: the run folder would vanish, there is nothing to resume, or a change contradicts what is stored.
    """
    if resume and start_or_resume:
        raise ConfigError("--resume goes on with a run, --start-or-resume may start one; give one of them")
    if source is None and not resume:
        raise ConfigError("name a config to train from, e.g. entente train laptop")
    if run_dir is None:
        if source is None:
            raise ConfigError("--resume needs --run-dir, the folder of the run to go on with")
        run_dir = Path("runs") / load_config(source, () if resume else overrides).run.name
    check_run_dir(run_dir)
    folder = RunFolder(run_dir)
    if resume or source is None:
        return RunRequest(on_its_cluster(folder.resumed_config(overrides)), run_dir, resume=True)
    config = load_config(source, overrides)
    if start_or_resume and folder.begun:
        folder.check_resumable(config)
        resume = True
    return RunRequest(on_its_cluster(config), run_dir, resume)
