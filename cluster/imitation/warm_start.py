"""Imitation of a run, before its first update and as its control, and the evaluation of policies beside the run's."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cluster.configs.schema import Config, config_from_json
from cluster.errors import RunError
from cluster.imitation.launcher import imitate
from cluster.runs.imitation_report import ImitationTask, read_report
from cluster.runtime.light_transformers import leave_out_optional_packages
from cluster.runtime.stop_signals import start_shielded
from grpo_core.errors import EntenteError
from services.metrics.display.display import Display

EVALUATION_TIMEOUT_S = 3600.0  # for all games against one opponent
END_TIMEOUT_S = 10.0


def warm_start(task: ImitationTask, folder: Path, display: Display) -> None:
    """Let the policy imitate into ``folder``; a finished imitation with the same settings is kept.

    Raises:
        RunError: there is nothing to imitate, or a process failed.
    """
    before = read_report(folder)
    if before is not None and before["made_from"] == task.digest:
        display.log(f"continuing from {folder}, made with the same settings before")
        return
    for remains in (folder, *folder.parent.glob(f".{folder.name}.draft-*")):
        shutil.rmtree(remains, ignore_errors=True)

    def stage(name: str, steps: int) -> Callable[[int], None]:
        display.stage(name, total=steps)
        return display.advance

    report = imitate(task, folder, stage)
    whose = report.teacher if report.games else "saved games"
    display.log(
        f"imitated {report.decisions:,} decisions of {whose} in {report.training_seconds:.0f} s (their games: "
        f"{report.playing_seconds:.0f} s): {report.nats_before:.3f} -> {report.nats_after[-1]:.3f} nats a token in "
        "games it has not seen"
    )


def evaluate_folder(
    config: Config,
    against: Sequence[str],
    label: str,
    candidate: Path,
    stage: Callable[[str], None],
    record: Callable[[str, dict[str, Any], float], None],
) -> None:
    """Evaluate a policy of the run that is no checkpoint, in the same games as those; in a separate process.

    The games are those against each of ``against``. ``stage`` shows what is being done; ``record`` takes the label of
    an evaluation, its row and the seconds it took.

    Raises:
        RunError: the games against one opponent take longer than an hour, or the process died.
    """
    if not against:
        return
    world = config.world
    with _measuring(candidate, config, against) as rows:
        for anchor in against:
            whom = world.opposition(anchor)
            stage(f"evaluating the {label} policy {whom}")
            start = time.monotonic()
            games = len(world.evaluation_games(config.evaluation, anchor, config.run.seed))
            row = _next_of(rows, f"{games} games of the {label} policy {whom}")
            record(label, row, time.monotonic() - start)


@contextmanager
def _measuring(candidate: Path, config: Config, against: Sequence[str]) -> Iterator[Connection]:
    """Run a process that sends a row for each opponent; it ends with the block in any case."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(theirs, str(candidate), config.model_dump_json(), list(against)))
    start_shielded(process)  # this process ends it
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join(END_TIMEOUT_S)
        ours.close()


def _next_of(rows: Connection, what: str) -> dict[str, Any]:
    if not rows.poll(EVALUATION_TIMEOUT_S):
        raise RunError(f"{what} took more than {EVALUATION_TIMEOUT_S:.0f} s; play fewer games in an evaluation")
    try:
        row: dict[str, Any] | str = rows.recv()
    except EOFError:
        raise RunError(
            f"the process that plays {what} died; its output above says why (out of memory? lower "
            "the games of an evaluation)"
        ) from None
    if isinstance(row, str):
        raise RunError(row)
    return row


def _measure(rows: Connection, candidate: str, config_json: str, against: Sequence[str]) -> None:
    """Run in the other process; only it imports torch."""
    leave_out_optional_packages()
    import torch

    from cluster.evaluation.evaluate import evaluate_in

    config = config_from_json(config_json)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # the parent process is gone
        for anchor in against:
            try:
                [row] = evaluate_in(config.world, config.evaluation, candidate, [anchor], seed=config.run.seed)
            except EntenteError as error:
                rows.send(str(error))
                return
            rows.send(row)
