"""Starts imitation in separate processes: the policy learns from other players' games."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster.errors import RunError
from cluster.runs.folder import EXPORTED, has_sampling, strict_json
from cluster.runs.imitation_report import (
    REPORT,
    Failed,
    GamesHandedOver,
    ImitationReport,
    ImitationTask,
    Message,
    StageBegan,
    StepsDone,
)
from cluster.runs.new_folder import new_folder
from cluster.runs.progress_bars import AddBar
from cluster.runtime.actor_env import actor_variables, started_with
from cluster.runtime.light_transformers import leave_out_optional_packages
from cluster.runtime.stop_signals import start_shielded
from grpo_core.checkpoints.atomic_write import write_atomically

SILENCE_TIMEOUT_S = 300.0  # without a step of any process
END_TIMEOUT_S = 10.0
DEATH_TIMEOUT_S = 2.0  # for the end of a killed process to show
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}  # the processes exchange gradients


def imitate(task: ImitationTask, folder: Path, add_bar: AddBar) -> ImitationReport:
    """Let the policy imitate on this machine, and write it to the new ``folder`` in Hugging Face layout.

    ``folder/imitation.json`` is the report; outside a run ``folder/entente.json`` says what the policy reads.

    Raises:
        RunError: there is nothing to imitate, the folder exists, or a process failed.
        StorageError: the folder cannot be written.
    """
    if not task.settings.wanted:
        raise RunError("there is nothing to imitate: set imitation.games or imitation.saved_games")
    with new_folder(folder) as draft:
        report = _in_processes(task, draft, add_bar)
        write_atomically(draft / REPORT, strict_json(asdict(report), indent=2) + b"\n")
        if not has_sampling(folder):  # a run says it by its own configuration
            write_atomically(draft / EXPORTED, strict_json({"config": _reading(task)}, indent=2) + b"\n")
    return report


def _reading(task: ImitationTask) -> dict[str, Any]:
    """The sections of the configuration that say what the policy reads and writes."""
    return {
        "task": {"name": task.task},
        "game": task.game.model_dump(mode="json", exclude_none=True),
        "policy": task.policy.model_copy(update={"path": None}).model_dump(mode="json", exclude_none=True),
        "inference": task.inference.model_dump(mode="json", exclude_none=True),
    }


def _in_processes(task: ImitationTask, draft: Path, add_bar: AddBar) -> ImitationReport:
    context = multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    processes: list[Any] = []
    with TemporaryDirectory(prefix="entente-imitation-") as meeting, started_with({**actor_variables(1), **LOOPBACK}):
        try:
            for rank in range(task.settings.processes):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_run_rank, args=(task, rank, f"{meeting}/ranks", draft, theirs))
                start_shielded(process)  # this process ends it
                theirs.close()
                connections.append(ours)
                processes.append(process)
            report = _listen(connections, processes, add_bar)
            _end(processes, END_TIMEOUT_S)
            return report
        finally:
            _end(processes, 0.0)  # after a failure or an interruption there is nothing to wait for
            for connection in connections:
                connection.close()


def _run_rank(task: ImitationTask, rank: int, meeting: str, draft: Path, connection: Connection) -> None:
    """Run in the new process; only it imports torch."""
    leave_out_optional_packages()
    from cluster.imitation.process import run_rank

    run_rank(task, rank, meeting, draft, connection)


def _listen(connections: list[Connection], processes: list[Any], add_bar: AddBar) -> ImitationReport:
    """Show the processes' progress until the first process reports that the policy is written."""
    bars: dict[str, Callable[[int], None]] = {}
    open_connections = list(connections)
    while True:
        ready = multiprocessing.connection.wait(open_connections, SILENCE_TIMEOUT_S)
        if not ready:
            raise RunError(
                f"imitation made no step for {SILENCE_TIMEOUT_S:.0f} s; is the machine overloaded? "
                "(imitation.processes, imitation.decisions_per_step)"
            )
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                message: Message = connection.recv()
            except EOFError:
                raise _death("") from None
            match message:
                case StageBegan(name, steps):
                    bars.setdefault(name, add_bar(name, steps))
                case StepsDone(name, steps):
                    bars[name](steps)
                case GamesHandedOver():
                    open_connections.remove(connection)
                case Failed():
                    # The others fail once one of them is gone, and may say so before its own end shows.
                    killed = _one_was_killed(processes)
                    reason = _cause(message, connections)
                    raise _death(f"; another one said: {reason}") if killed else RunError(f"imitation: {reason}")
                case ImitationReport():
                    return message


def _one_was_killed(processes: list[Any]) -> bool:
    deadline = time.monotonic() + DEATH_TIMEOUT_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    return any(process.exitcode is not None and process.exitcode < 0 for process in processes)


def _cause(failed: Failed, connections: list[Connection]) -> str:
    """Return what the user can do something about, if any process said so, and else what this one said."""
    messages = [failed]
    for connection in connections:
        with suppress(EOFError, OSError):  # the process is gone, and all that it said was read
            while connection.poll():
                message = connection.recv()
                if isinstance(message, Failed):
                    messages.append(message)
    return next((each.reason for each in messages if each.expected), failed.reason)


def _death(more: str) -> RunError:
    return RunError(
        "a process of the imitation died; its output above says why (out of memory? lower imitation.games or "
        f"imitation.processes){more}"
    )


def _end(processes: list[Any], grace_s: float) -> None:
    """Give the processes time to end by themselves, and kill those that do not."""
    deadline = time.monotonic() + grace_s
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join(END_TIMEOUT_S)
