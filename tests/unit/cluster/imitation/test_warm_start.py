"""The untrained policy is evaluated in a separate process, which ends with the process that waits for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import pytest

import cluster.imitation.launcher
import cluster.imitation.warm_start
from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.imitation.launcher import imitate
from cluster.imitation.warm_start import evaluate_folder
from cluster.runs.imitation_report import Failed, ImitationTask

CONFIG = load_config("smoke", ["evaluation.against=['random', 'greedy']"])
AGAINST = CONFIG.evaluation.against


def never(rows: Connection, candidate: str, config_json: str, against: list[str]) -> None:
    while True:
        time.sleep(1)


def one_and_dies(rows: Connection, candidate: str, config_json: str, against: list[str]) -> None:
    rows.send({"against": against[0], "candidate": candidate})
    os._exit(9)


def ended_by_signals(rows: Connection, candidate: str, config_json: str, against: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    rows.send("it goes on")


def test_a_signal_to_every_process_leaves_the_evaluation_of_the_untrained_policy_to_the_run(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(cluster.imitation.warm_start, "_measure", ended_by_signals)
    with pytest.raises(RunError, match="it goes on"):
        evaluate_folder(CONFIG, AGAINST, "untrained", tmp_path, lambda name: None, lambda *_: None)


def rank_ended_by_signals(task: object, rank: int, meeting: str, draft: object, connection: Connection) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    connection.send(Failed("it goes on", expected=True))


def test_a_signal_to_every_process_leaves_imitation_to_the_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(cluster.imitation.launcher, "_run_rank", rank_ended_by_signals)
    task = ImitationTask.of(load_config("smoke", ["imitation.games=2", "imitation.processes=1"]))
    with pytest.raises(RunError, match="imitation: it goes on"):
        imitate(task, tmp_path / "policy", lambda name, steps: lambda done: None)


@pytest.mark.parametrize(
    ("measure", "limit_s", "message", "rows"),
    [
        (never, 0.2, "7 games of the untrained policy against six random took more than 0 s", 0),
        (one_and_dies, 600.0, "plays 7 games of the untrained policy against six greedy died", 1),
    ],
)
def test_the_evaluation_of_the_untrained_policy_ends_with_a_reason(
    tmp_path, monkeypatch, measure, limit_s, message, rows
) -> None:
    monkeypatch.setattr(cluster.imitation.warm_start, "_measure", measure)
    monkeypatch.setattr(cluster.imitation.warm_start, "EVALUATION_TIMEOUT_S", limit_s)
    recorded: list[dict[str, Any]] = []
    with pytest.raises(RunError, match=message):
        evaluate_folder(
            CONFIG,
            AGAINST,
            "untrained",
            tmp_path / "untrained",
            lambda name: None,
            lambda label, row, s: recorded.append({"label": label, **row}),
        )
    assert not multiprocessing.active_children()
    assert len(recorded) == rows
    assert all(row["label"] == "untrained" for row in recorded)
    assert all(row["candidate"] == str(tmp_path / "untrained") for row in recorded)
