"""Imitation before a run's first update, and the evaluation of the policy before it imitated."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cluster.configs.sections import EvaluationSettings
from cluster.errors import RunError
from cluster.imitation.launcher import imitate
from cluster.runs.folder import RunFolder
from cluster.runs.imitation_report import UNTRAINED, ImitationTask, read_report
from cluster.runtime.stop_signals import start_shielded
from grpo_core.errors import EntenteError
from services.metrics.display.display import Display

EVALUATION_TIMEOUT_S = 3600.0  # for all games against one opponent
END_TIMEOUT_S = 10.0


def warm_start(task: ImitationTask, folder: RunFolder, display: Display) -> None:
    """Let the policy imitate into ``folder.imitated``; a finished imitation with the same settings is kept.

    Raises:
        RunError: there is nothing to imitate, or a process failed.
    """
    before = read_report(folder.imitated)
    if before is not None and before["made_from"] == task.digest:
        display.log(f"continuing from {folder.imitated}, made with the same settings before")
        return
    for remains in (folder.imitated, *folder.path.glob(f".{folder.imitated.name}.draft-*")):
        shutil.rmtree(remains, ignore_errors=True)

    def stage(name: str, steps: int) -> Callable[[int], None]:
        display.stage(name, total=steps)
        return display.advance

    report = imitate(task, folder.imitated, stage)
    whose = report.teacher if report.games else "saved games"
    display.log(
        f"imitated {report.decisions:,} decisions of {whose} in {report.training_seconds:.0f} s (their games: "
        f"{report.playing_seconds:.0f} s): {report.nats_before:.3f} -> {report.nats_after[-1]:.3f} nats a token in "
        "games it has not seen"
    )


def evaluate_untrained(
    settings: EvaluationSettings,
    seed: int,
    folder: RunFolder,
    stage: Callable[[str], None],
    record: Callable[[str, dict[str, Any], float], None],
) -> None:
    """Evaluate the policy as it was before it imitated, in the same games as later; in a separate process.

    ``stage`` shows what is being done; ``record`` takes the label of an evaluation, its row and the seconds it took.

    Raises:
        RunError: the games against one opponent take longer than an hour, or the process died.
    """
    if not settings.against:
        return
    with _measuring(folder.imitated / UNTRAINED, settings, seed) as rows:
        for against in settings.against:
            stage(f"evaluating the untrained policy against six {against}")
            start = time.monotonic()
            games = 7 * settings.games_per_country
            row = _next_of(rows, f"{games} games of the untrained policy against six {against}")
            row["checkpoint"] = f"imitated/{UNTRAINED}"
            record("untrained", row, time.monotonic() - start)


@contextmanager
def _measuring(candidate: Path, settings: EvaluationSettings, seed: int) -> Iterator[Connection]:
    """Run a process that sends a row for each opponent; it ends with the block in any case."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(theirs, str(candidate), settings, seed))
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
        raise RunError(f"{what} took more than {EVALUATION_TIMEOUT_S:.0f} s; lower evaluation.games_per_country")
    try:
        row: dict[str, Any] | str = rows.recv()
    except EOFError:
        raise RunError(
            f"the process that plays {what} died; its output above says why (out of memory? lower "
            "evaluation.games_per_country)"
        ) from None
    if isinstance(row, str):
        raise RunError(row)
    return row


def _measure(rows: Connection, candidate: str, settings: EvaluationSettings, seed: int) -> None:
    """Run in the other process; only it imports torch."""
    import torch

    from cluster.evaluation.play import evaluate

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # the parent process is gone
        for against in settings.against:
            try:
                [row] = evaluate(
                    candidate,
                    [against],
                    games_per_country=settings.games_per_country,
                    until_year=settings.until_year,
                    seed=seed,
                )
            except EntenteError as error:
                rows.send(str(error))
                return
            rows.send(row)
