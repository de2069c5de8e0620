"""A drill without a training: choice of faults, reconciliation and tables. The system test has a real one."""

from __future__ import annotations

import io
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil
import pytest
from rich.console import Console

from cluster.drill.faults.context import DrillContext
from cluster.drill.faults.processes import copy_half
from cluster.drill.faults.table import FAULTS, draw, faults_of
from cluster.drill.reconciliation import Balance, Reconciliation, balance, damaged_checkpoints, read_reconciliation
from cluster.drill.record import Record, RecoveredFault, episode_checks
from cluster.drill.runner import Plan
from cluster.drill.settings import STOPPED_S, drill_config
from cluster.drill.tables import shown
from cluster.drill.training_process import DrillFailedError, TrainingProcess
from cluster.errors import RunError
from cluster.runs.folder import RunFolder, audits, episodes_used, last_update
from grpo_core.checkpoints.folders import checkpoint_versions, fingerprint

if TYPE_CHECKING:
    from cluster.drill.replay_clients import ReplayClients

BALANCED = Reconciliation(
    stored=frozenset("abcdef"),
    used={"a": 1, "b": 1, "c": 1, "d": 1},
    poison=("e",),
    waiting=frozenset("f"),
    poison_counted=1,
    acknowledged_counted=4,
)


def passed(reconciliation: Reconciliation, damaged: int = 1) -> dict[str, bool]:
    return {check.text: check.passed for check in episode_checks(reconciliation, balance(reconciliation), damaged)}


def test_reconciliation_balances_if_every_episode_was_used_once_set_aside_or_is_waiting() -> None:
    found = passed(BALANCED)
    assert len(found) == 5
    assert all(found.values())


@pytest.mark.parametrize(
    ("change", "failing", "named"),
    [
        ({"used": {"a": 1, "b": 1, "c": 1}, "acknowledged_counted": 3}, "no stored episode is lost", "d"),
        ({"used": {"a": 2, "b": 1, "c": 1, "d": 1}}, "none is used twice", "a"),
        ({"poison": ("a",), "stored": frozenset("abcdf")}, "none is used twice", "a"),  # used and set aside
        ({"waiting": frozenset("fa")}, "none is used twice", "a"),  # used and delivered again
        ({"stored": frozenset("bcdef")}, "none comes from nowhere", "a"),
        ({"acknowledged_counted": 5}, "what was used is acknowledged, nothing else", "5 acknowledged"),
        ({"poison_counted": 2}, "each unreadable entry is set aside and counted", "2 counted"),
    ],
)
def test_unbalanced_reconciliation_fails_one_check_with_the_reason(
    change: dict[str, object], failing: str, named: str
) -> None:
    reconciliation = replace(BALANCED, **change)  # type: ignore[arg-type]
    assert [text for text, ok in passed(reconciliation).items() if not ok] == [failing]
    found = next(p.found for p in episode_checks(reconciliation, balance(reconciliation), 1) if p.text == failing)
    assert named in found
    assert not passed(BALANCED, damaged=2)["each unreadable entry is set aside and counted"]


def test_an_episode_seen_before_and_absent_from_the_server_is_lost(tmp_path: Path) -> None:
    class ForgetfulServer:
        def counters(self) -> dict[str, int]:
            return {}

        def stored(self) -> frozenset[str]:
            return frozenset("ab")

        def waiting(self) -> dict[str, bytes]:
            return {"a": b"", "b": b""}

        def poison(self) -> list[str]:
            return []

    reconciliation = read_reconciliation(tmp_path, cast("ReplayClients", ForgetfulServer()), {"a", "c"})
    assert balance(reconciliation) == Balance(lost=("c",), used_twice=(), unknown=())


def test_the_server_must_be_a_process_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = TrainingProcess(tmp_path, tmp_path / "drill.toml", tmp_path / "drill.log")
    monkeypatch.setattr(training, "family", lambda: [psutil.Process()])
    context = DrillContext(training, RunFolder(tmp_path), random.Random(0), 2, 2, 1.0)
    (tmp_path / "redis").mkdir()
    state = tmp_path / "redis" / "server.json"
    state.write_text(json.dumps({"pid": os.getppid()}))  # another process has the id of a server that is gone
    with pytest.raises(DrillFailedError, match=f"process {os.getppid()} in .* is not one of the run's"):
        context.server()
    state.write_text(json.dumps({"pid": os.getpid()}))
    assert context.server() == psutil.Process()


def test_used_episodes_exclude_those_set_aside(tmp_path: Path) -> None:
    assert last_update(tmp_path) == 0
    (tmp_path / "audit").mkdir()
    for version, record in {1: (["a", "b"], []), 2: (["c"], ["a"])}.items():
        text = json.dumps({"episodes": record[0], "set_aside": record[1]})
        (tmp_path / "audit" / f"{version:06d}.json").write_text(text)
    assert last_update(tmp_path) == 2
    assert list(audits(tmp_path)) == [1, 2]
    assert episodes_used(tmp_path) == {"a": 2, "b": 1, "c": 1}


def test_fault_kinds_are_drawn_equally_often_in_an_order_fixed_by_the_seed() -> None:
    kinds = list(FAULTS)
    drawn = draw(kinds, 2 * len(kinds) + 1, random.Random(3))
    assert set(Counter(drawn).values()) == {2, 3}
    assert drawn == draw(kinds, len(drawn), random.Random(3)) != draw(kinds, len(drawn), random.Random(4))


def test_invalid_plans_raise(tmp_path: Path) -> None:
    plan = Plan(6, 0, tmp_path / "run", "torch", only=("driver", "learner"))
    plan.check()
    assert plan.kinds == ["learner", "driver"]
    with pytest.raises(
        RunError, match=r"no fault is called 'engine' with the torch engine and the embedded .* rollout, "
    ):
        replace(plan, only=("engine",)).check()
    assert "engine" in faults_of("vllm", "embedded")
    with pytest.raises(RunError, match="no fault is called 'away'"):
        replace(plan, only=("away",)).check()
    replace(plan, only=("away",), server="external").check()
    with pytest.raises(RunError, match="no fault is called 'server'"):
        replace(plan, only=("server",), server="external").check()
    (tmp_path / "run" / "checkpoints" / "0").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "0" / "manifest.json").touch()
    with pytest.raises(RunError, match="already holds a run; choose another --run-dir"):
        plan.check()


@pytest.mark.parametrize("engine", ["torch", "vllm"])
def test_a_driver_stop_exceeds_the_runs_short_time_limits(engine: str) -> None:
    config = drill_config(engine, 30, seed=5)  # type: ignore[arg-type]
    assert max(config.run.silence_timeout_s, config.redis.answer_timeout_s) < STOPPED_S
    assert max(config.rollout.block_timeout_s, config.rollout.swap_timeout_s) < 60
    assert config.run.max_restarts == 3


def test_an_incomplete_checkpoint_is_not_a_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    whole = folder.checkpoints / "4"
    whole.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.safetensors", "trainer_state.json"):
        (whole / name).write_bytes(b"0123456789")
    files = {path.name: fingerprint(path) for path in whole.iterdir()}
    (whole / "manifest.json").write_text(json.dumps({"schema": 1, "version": 4, "files": files}))
    copy_half(whole, folder.checkpoints / "6")
    assert checkpoint_versions(tmp_path) == (4,)
    assert damaged_checkpoints(folder) == ["6"]


def test_without_a_terminal_the_drill_prints_stages_and_faults_as_lines_and_checks_last(tmp_path: Path) -> None:
    record, out = Record("torch", "embedded", 0, 2), io.StringIO()
    with shown(record, Console(file=out, width=100)) as notify:
        notify("learner: kills the learner")
        record.recovered.append(RecoveredFault("learner", "LearnerActor 7", 3.0, 5, "starts itself again", 12.5, 6))
        notify("reconciling the episodes")
        record.checks += episode_checks(BALANCED, balance(BALANCED), 1)
    lines = out.getvalue().splitlines()
    assert "learner: kills the learner" in lines[0]
    assert "learner (LearnerActor 7): the run starts itself again, update after 12.5 s" in lines[1]
    assert any("no stored episode is lost" in line and "6 stored, 0 wrong" in line for line in lines)
    document = record.document("entente drill")
    assert json.loads(json.dumps(document))["faults"][0]["recovered_s"] == 12.5
    assert document["failure"] is None


def test_missing_server_is_reported(tmp_path: Path) -> None:
    training = TrainingProcess(tmp_path, tmp_path / "drill.toml", tmp_path / "drill.log")
    context = DrillContext(training, RunFolder(tmp_path), random.Random(0), 2, 2, 1.0)
    with pytest.raises(DrillFailedError, match="no replay server runs in"):
        context.store()
    assert training.survivors() == []
    training.close()
