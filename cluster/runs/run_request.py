"""The run that a training command asks for: its configuration, its folder, and whether it is resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cluster.configs.loader import Overrides, Source, load_config
from cluster.configs.schema import Config
from cluster.errors import ConfigError
from cluster.runs.folder import RunFolder
from cluster.runs.ray_job import check_run_dir, on_its_cluster


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to train."""

    config: Config
    run_dir: Path
    resume: bool


def requested_run(
    source: Source | None, overrides: Overrides, run_dir: Path | None, *, resume: bool, start_or_resume: bool
) -> RunRequest:
    """Find the run that a command line or a program asks for; ``source`` and ``overrides`` as for ``load_config``.

    ``resume`` uses the run's stored configuration; ``source`` then only names the folder if ``run_dir`` does not.
    ``start_or_resume`` always uses ``source``, which must agree with the stored data of a run there: the same command
    starts a run, continues it, and continues it with more updates once the file has more.

    Raises ConfigError if the command names no run or the configuration cannot be used, RunError if the run folder would
    be deleted, there is nothing to resume, or a change contradicts stored data.
    """
    if resume and start_or_resume:
        raise ConfigError("--resume goes on with a run, --start-or-resume may start one; give one of them")
    if source is None and not resume:
        raise ConfigError('name a config to train from, e.g. entente train laptop, in Python entente.train("laptop")')
    if run_dir is None:
        if source is None:
            raise ConfigError("to resume a run, name its folder with --run-dir")
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
