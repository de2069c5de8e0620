"""A run's policy before its first update: it imitates where the config says so, and is measured before that, too."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from cluster.config import Config
from cluster.errors import RunError
from cluster.imitate import imitate
from cluster.imitation_messages import UNTRAINED, made_from, read_report
from cluster.progress import Progress
from cluster.run_folder import RunFolder
from services.metrics.display import Display

EVALUATION_TIMEOUT_S = 3600.0  # for all games against one opponent


def warm_start(config: Config, folder: RunFolder, display: Display) -> None:
    """Let the policy imitate into ``folder.imitated``; what an interrupted start of the same settings made is kept.

    Raises:
        RunError: there is nothing to imitate, or a process failed.
    """
    before = read_report(folder.imitated)
    if before is not None and before["made_from"] == made_from(config):
        display.log(f"going on from {folder.imitated}, made by the same settings before")
        return
    for remains in (folder.imitated, *folder.path.glob(f".{folder.imitated.name}.draft-*")):
        shutil.rmtree(remains, ignore_errors=True)

    def stage(name: str, steps: int) -> Callable[[int], None]:
        display.stage(name, total=steps)
        return display.advance

    report = imitate(config, folder.imitated, stage)
    display.log(
        f"imitated {report.decisions:,} decisions of {report.teacher} in {report.training_seconds:.0f} s (their games: "
        f"{report.playing_seconds:.0f} s): {report.nats_before:.3f} -> {report.nats_after[-1]:.3f} nats a token in "
        "games it has not seen"
    )


def evaluate_untrained(config: Config, folder: RunFolder, progress: Progress) -> None:
    """Measure the policy as it was before it imitated, in the same games as later; in a process of its own.

    Raises:
        RunError: the games against one opponent take longer than an hour.
    """
    settings = config.evaluation
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for against in settings.against:
            progress.display.stage(f"evaluating the untrained policy against six {against}")
            start = time.monotonic()
            future = pool.submit(
                _measure,
                str(folder.imitated / UNTRAINED),
                against,
                settings.games_per_country,
                settings.until_year,
                config.run.seed,
                settings.temperature,
            )
            try:
                row = future.result(timeout=EVALUATION_TIMEOUT_S)
            except TimeoutError:
                raise RunError(
                    f"{settings.games_per_country * 7} games of the untrained policy against six {against} took more "
                    f"than {EVALUATION_TIMEOUT_S:.0f} s; lower evaluation.games_per_country"
                ) from None
            row["checkpoint"] = f"imitated/{UNTRAINED}"
            progress.evaluation("untrained", row, time.monotonic() - start)


def _measure(
    candidate: str, against: str, games_per_country: int, until_year: int, seed: int, temperature: float
) -> dict[str, Any]:
    """In the other process, which alone imports torch."""
    import torch

    from cluster.evaluate import evaluate

    torch.set_num_threads(1)
    [row] = evaluate(
        candidate,
        [against],
        games_per_country=games_per_country,
        until_year=until_year,
        seed=seed,
        temperature=temperature,
    )
    return row
