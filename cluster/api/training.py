"""Training from Python and from the command line: one run, restarted after accidents, in this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.api.run import Run
from cluster.configs.loader import Overrides, Source
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.run_request import RunRequest, requested_run
from cluster.runtime.stop_signals import handlers_restored, shielded, stop_at_signals
from grpo_core.errors import EntenteError

_ARGUMENTS = {"--start-or-resume": "start_or_resume=True", "--resume": "resume=True", "--run-dir": "run_dir"}

Say = Callable[[str], None]  # shows the user a line


def train(
    config: Source | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    *,
    overrides: Overrides = (),
    resume: bool = False,
    start_or_resume: bool = False,
) -> Run:
    """Train a policy on whole games and return its run; ``entente train`` in this process, with the same restarts.

    ``config`` and ``overrides`` are given as for ``load_config``. ``run_dir`` is the run's folder, by default
    ``runs/<run.name>``. ``resume`` goes on with the run there by its own configuration, and ``config`` may be left
    out; ``start_or_resume`` goes on with it if there is one, else starts it.

    It returns after the last update and evaluation. Progress is printed as plain lines, on a terminal as a display. An
    interruption (Ctrl-C, a notebook's stop button, SIGTERM) saves, ends all processes of the run, and is raised as
    KeyboardInterrupt with the call that goes on. Signals reach the main thread alone, so a call in another thread is
    not interrupted by them. One run at a time trains in a process; processes that other threads start meanwhile may be
    ended with it. A script that trains needs ``if __name__ == "__main__":``, because imitation starts processes.

    Raises EntenteError (``cluster.errors`` lists the kinds) with one line that says what to do.
    """
    with handlers_restored(), _errors_in_python_words():
        stop_at_signals()
        folder = None if run_dir is None else Path(run_dir)
        request = requested_run(config, overrides, folder, resume=resume, start_or_resume=start_or_resume)
        _check_ray_is_free(request)
        try:
            train_request(request, say=_print_line, warn=_print_line)
        except KeyboardInterrupt:
            again = f"go on with entente.train(run_dir={str(request.run_dir)!r}, resume=True)"
            begun = RunFolder(request.run_dir).begun
            text = f"saved; {again}" if begun else "stopped before there was anything to save; start it again"
            raise KeyboardInterrupt(text) from None
    return Run(request.run_dir)


def train_request(request: RunRequest, *, say: Say, warn: Say) -> None:
    """Train a run to its end, with restarts after accidents; the caller decides how signals are handled.

    ``say`` is told about each restart, ``warn`` about a limit that may cut a save short.

    Raises EntenteError if the run cannot start or go on, KeyboardInterrupt after an interruption, when all is saved.
    """
    if request.config.run.ray_address is None:
        from cluster.runtime.local_ray import prepare_local_ray

        prepare_local_ray()
    with shielded():  # libraries start threads; Ray reads what was prepared
        from cluster.driver.metrics_server import MetricsServer
        from cluster.driver.saved_opponents import check_saved_opponents
        from cluster.driver.training import check_machine, save_timeout_s
        from cluster.driver.training import train as train_once
        from cluster.runs.ray_job import short_stop
        from cluster.runs.restarts import keep_training

    if request.config.policy.path is not None and not request.resume:
        _check_policy(request.config)
    if not request.resume:
        check_saved_opponents(request.config)
    if warning := short_stop(request.config.redis, save_timeout_s(request.config)):
        warn(warning)
    check_machine(request.config)
    with RunFolder(request.run_dir).held(), MetricsServer() as metrics:
        keep_training(
            lambda resume: train_once(request.config, request.run_dir, resume=resume, metrics=metrics),
            request.run_dir,
            resume=request.resume,
            max_restarts=request.config.run.max_restarts,
            say=lambda text: say(f"{time.strftime('%H:%M:%S')} {text}"),
        )


def _check_policy(config: Config) -> None:
    """Check the model that a run starts from before Ray starts; on a cluster it may be seen from its nodes alone."""
    from cluster.actors.initial_policy import check_policy
    from grpo_core.models.hub import is_hub_name
    from opponents.champion.shipped import CHAMPION

    path = Path(str(config.policy.path))
    if config.run.ray_address is not None and config.policy.path != CHAMPION and not path.exists():
        if is_hub_name(str(path)):
            raise RunError(
                f"policy.path {path} is no folder: on a cluster fetch it once to where all nodes read it, by "
                f"hf download {path} --local-dir FOLDER, and name that folder"
            )
        return
    check_policy(config.policy, config.inference, config.world.language)


@contextmanager
def _errors_in_python_words() -> Iterator[None]:
    """Let errors name arguments of ``train`` instead of the command's options."""
    try:
        yield
    except EntenteError as error:
        text = str(error)
        for option, argument in _ARGUMENTS.items():
            text = text.replace(option, argument)
        error.args = (text,)
        raise


def _check_ray_is_free(request: RunRequest) -> None:
    """Raise RunError if the program uses Ray already, or imported it before it was told to stay on this machine."""
    ray = sys.modules.get("ray")
    if ray is None:
        return
    if ray.is_initialized():
        raise RunError("this program is connected to Ray already, and a run needs its own: call ray.shutdown() first")
    from cluster.runtime.local_ray import LOOPBACK_VARIABLE

    if request.config.run.ray_address is None and LOOPBACK_VARIABLE not in os.environ:
        raise RunError(
            "Ray was imported before Entente could tell it to listen on this machine alone: start the program or "
            f"kernel again and import Ray later, or set {LOOPBACK_VARIABLE}=0 before it is imported"
        )


def _print_line(text: str) -> None:
    with suppress(OSError):  # the run goes on where its output cannot be written
        print(text, flush=True)
