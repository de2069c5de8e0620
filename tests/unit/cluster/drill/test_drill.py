"""A drill without a training: which faults come, what the books say, what is shown. ``test_drill`` is real."""

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

from cluster.drill.errors import BrokenPromiseError
from cluster.drill.faults import FAULTS, Scene, _copy_half, draw, faults_of
from cluster.drill.reconciliation import Balance, Reconciliation, balance, damaged_checkpoints, read_books
from cluster.drill.record import Overcome, Record, promises_of_books
from cluster.drill.runner import Plan
from cluster.drill.settings import STOPPED_S, drill_config
from cluster.drill.tables import shown
from cluster.drill.training_process import Training
from cluster.errors import RunError
from cluster.runs.audit_records import audits, episodes_used, last_update
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import checkpoint_versions, fingerprint

if TYPE_CHECKING:
    from cluster.drill.replay_store import Store

BALANCED = Reconciliation(
    stored=frozenset("abcdef"),
    used={"a": 1, "b": 1, "c": 1, "d": 1},
    poison=("e",),
    waiting=frozenset("f"),
    poison_counted=1,
    acknowledged_counted=4,
)


def kept(books: Reconciliation, spoiled: int = 1) -> dict[str, bool]:
    return {promise.text: promise.kept for promise in promises_of_books(books, balance(books), spoiled)}


def test_books_balance_when_every_episode_was_used_once_or_set_aside_or_waits() -> None:
    found = kept(BALANCED)
    assert len(found) == 5
    assert all(found.values())


@pytest.mark.parametrize(
    ("change", "broken", "named"),
    [
        ({"used": {"a": 1, "b": 1, "c": 1}, "acknowledged_counted": 3}, "no stored episode is lost", "d"),
        ({"used": {"a": 2, "b": 1, "c": 1, "d": 1}}, "none is used twice", "a"),
        ({"poison": ("a",), "stored": frozenset("abcdf")}, "none is used twice", "a"),  # used, and set aside
        ({"waiting": frozenset("fa")}, "none is used twice", "a"),  # used, and given out again
        ({"stored": frozenset("bcdef")}, "none comes from nowhere", "a"),
        ({"acknowledged_counted": 5}, "what was used is acknowledged, nothing else", "5 acknowledged"),
        ({"poison_counted": 2}, "each unreadable entry is set aside and counted", "2 counted"),
    ],
)
def test_books_that_do_not_balance_break_one_promise_and_say_what_is_wrong(
    change: dict[str, object], broken: str, named: str
) -> None:
    books = replace(BALANCED, **change)  # type: ignore[arg-type]
    assert [text for text, is_kept in kept(books).items() if not is_kept] == [broken]
    found = next(p.found for p in promises_of_books(books, balance(books), 1) if p.text == broken)
    assert named in found
    assert not kept(BALANCED, spoiled=2)["each unreadable entry is set aside and counted"]


def test_what_was_seen_stored_and_the_server_forgot_altogether_is_lost(tmp_path: Path) -> None:
    class Forgetful:
        def counters(self) -> dict[str, int]:
            return {}

        def stored(self) -> frozenset[str]:
            return frozenset("ab")

        def waiting(self) -> frozenset[str]:
            return frozenset("ab")

        def poison(self) -> list[str]:
            return []

    books = read_books(tmp_path, cast("Store", Forgetful()), {"a", "c"})
    assert balance(books) == Balance(lost=("c",), used_twice=(), unknown=())


def test_the_server_is_a_process_of_the_run_or_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(tmp_path, tmp_path / "drill.toml", tmp_path / "drill.log")
    monkeypatch.setattr(training, "family", lambda: [psutil.Process()])
    scene = Scene(training, RunFolder(tmp_path), random.Random(0), 2, 1.0)
    (tmp_path / "redis").mkdir()
    state = tmp_path / "redis" / "server.json"
    state.write_text(json.dumps({"pid": os.getppid()}))  # whoever has the id of a server that is gone
    with pytest.raises(BrokenPromiseError, match=f"process {os.getppid()} in .* is none of the run's"):
        scene.server()
    state.write_text(json.dumps({"pid": os.getpid()}))
    assert scene.server() == psutil.Process()


def test_audit_records_are_counted_with_what_was_set_aside(tmp_path: Path) -> None:
    assert last_update(tmp_path) == 0
    (tmp_path / "audit").mkdir()
    for version, record in {1: (["a", "b"], []), 2: (["c"], ["a"])}.items():
        text = json.dumps({"episodes": record[0], "set_aside": record[1]})
        (tmp_path / "audit" / f"{version:06d}.json").write_text(text)
    assert last_update(tmp_path) == 2
    assert list(audits(tmp_path)) == [1, 2]
    assert episodes_used(tmp_path) == {"a": 2, "b": 1, "c": 1}


def test_every_kind_comes_as_often_as_any_other_in_an_order_that_the_seed_fixes() -> None:
    kinds = list(FAULTS)
    drawn = draw(kinds, 2 * len(kinds) + 1, random.Random(3))
    assert set(Counter(drawn).values()) == {2, 3}
    assert drawn == draw(kinds, len(drawn), random.Random(3)) != draw(kinds, len(drawn), random.Random(4))


def test_what_cannot_begin_is_refused_in_one_line(tmp_path: Path) -> None:
    plan = Plan(6, 0, tmp_path / "run", "torch", ("driver", "learner"))
    plan.check()
    assert plan.kinds == ["learner", "driver"]
    with pytest.raises(RunError, match=r"no fault is called 'engine' with the torch engine; there are rollout, "):
        replace(plan, only=("engine",)).check()
    assert "engine" in faults_of("vllm")
    (tmp_path / "run" / "checkpoints" / "0").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "0" / "manifest.json").touch()
    with pytest.raises(RunError, match="already holds a run; choose another --run-dir"):
        plan.check()


@pytest.mark.parametrize("engine", ["torch", "vllm"])
def test_the_driver_is_stopped_for_longer_than_anybody_waits_and_no_limit_makes_a_drill_last(engine: str) -> None:
    config = drill_config(engine, 30, seed=5)  # type: ignore[arg-type]
    assert max(config.run.silence_timeout_s, config.redis.answer_timeout_s) < STOPPED_S
    assert max(config.rollout.block_timeout_s, config.rollout.swap_timeout_s) < 60
    assert config.run.max_restarts == 3


def test_half_a_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    whole = folder.checkpoints / "4"
    whole.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.safetensors", "trainer_state.json"):
        (whole / name).write_bytes(b"0123456789")
    files = {path.name: fingerprint(path) for path in whole.iterdir()}
    (whole / "manifest.json").write_text(json.dumps({"schema": 1, "version": 4, "files": files}))
    _copy_half(whole, folder.checkpoints / "6")
    assert checkpoint_versions(tmp_path) == (4,)
    assert damaged_checkpoints(folder) == ["6"]


def test_without_a_terminal_every_stage_and_fault_is_a_line_and_the_promises_come_last(tmp_path: Path) -> None:
    record, out = Record("torch", 0, 2), io.StringIO()
    with shown(record, Console(file=out, width=100)) as watch:
        watch("learner: kills the learner")
        record.overcome.append(Overcome("learner", "LearnerActor 7", 3.0, 5, "starts itself again", 12.5, 6))
        watch("closing the books")
        record.promises += promises_of_books(BALANCED, balance(BALANCED), 1)
    lines = out.getvalue().splitlines()
    assert "learner: kills the learner" in lines[0]
    assert "learner (LearnerActor 7): the run starts itself again, update after 12.5 s" in lines[1]
    assert any("no stored episode is lost" in line and "6 stored, 0 wrong" in line for line in lines)
    document = record.document("entente drill")
    assert json.loads(json.dumps(document))["faults"][0]["recovered_s"] == 12.5
    assert document["broken"] is None


def test_no_server_is_told_as_such(tmp_path: Path) -> None:
    training = Training(tmp_path, tmp_path / "drill.toml", tmp_path / "drill.log")
    scene = Scene(training, RunFolder(tmp_path), random.Random(0), 2, 1.0)
    with pytest.raises(BrokenPromiseError, match="no replay server runs in"):
        scene.store()
    assert training.survivors() == []
    training.close()
