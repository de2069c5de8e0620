"""While the replay server is away the driver's time limits stand still, and a run that ends saves without it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.actors.learner import LearnerWorker
from cluster.configs.sections import RolloutSettings
from cluster.driver.actor_supervisor import Supervisor
from cluster.driver.heartbeat import MAX_STEP_S, Heartbeat, StallTimer
from cluster.errors import LostError
from grpo_core.checkpoints.folders import checkpoint_versions
from services.environments.diplomacy.position import POWERS
from services.replay.buffer import ServerLostError
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.cluster.actors.test_batch_collector import CONFIG, episodes


class Clock:
    """Seconds so far, and those of them in which the server was away."""

    def __init__(self) -> None:
        self.now = 100.0
        self.away = 0.0

    def pass_by(self, seconds: float, *, away: bool) -> None:
        self.now += seconds
        self.away += seconds if away else 0.0


def test_the_time_limit_of_an_update_stands_still_while_the_server_is_away() -> None:
    clock = Clock()
    timer = StallTimer(60.0, lambda: clock.now, lambda: clock.away)
    for away in (False, True, True, False):
        for _ in range(25):
            clock.pass_by(1.0, away=away)
            assert not timer.over()
    seen = 0
    while not timer.over():
        clock.pass_by(1.0, away=False)
        seen += 1
    assert seen == pytest.approx(60 - 50, abs=2)
    timer.restart()
    clock.pass_by(MAX_STEP_S, away=True)
    assert not timer.over()


def test_the_learners_heartbeat_stands_still_while_the_server_is_away() -> None:
    clock = Clock()
    heartbeat = Heartbeat(object, 10.0, lambda: clock.now, lambda ref: False, lambda: clock.away)

    def check(times: int, *, away: bool) -> None:
        for _ in range(times):
            clock.pass_by(0.5, away=away)
            heartbeat.check()

    heartbeat.check()
    check(200, away=True)
    with pytest.raises(LostError, match="no sign of life for 10 s"):
        check(50, away=False)


class FakeActor:
    """Answers nothing; each call has a reference of its own."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *_: object())


def test_a_rollout_actor_has_as_much_more_time_as_the_server_was_away() -> None:
    clock = Clock()
    settings = RolloutSettings(actors=1, start_timeout_s=50.0)
    pool = Supervisor(lambda slot: FakeActor(), settings, away_s=lambda: clock.away)  # type: ignore[arg-type,return-value]
    (worker,) = pool._workers
    (call,) = worker.calls.values()
    before = call.deadline
    clock.pass_by(600.0, away=True)
    pool._replace_overdue(blocks=True)
    assert call.deadline == before + 600.0
    pool._replace_overdue(blocks=True)
    clock.pass_by(600.0, away=False)
    pool._replace_overdue(blocks=True)
    assert call.deadline == before + 600.0
    assert call.deadline > time.monotonic()


class AwayBuffer(MemoryBuffer):
    """Its server may be away; then what needs it fails at once after ``hurry``."""

    away = False
    hurried = False

    def acknowledge(self, receipts: Any) -> None:
        if self.away:
            raise ServerLostError("no Redis server answers")
        super().acknowledge(receipts)

    def hurry(self) -> None:
        self.hurried = True


def test_a_run_that_ends_while_the_server_is_away_saves_what_it_learned(tmp_path: Path) -> None:
    buffer = AwayBuffer(group_timeout_s=60)
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=False)
    buffer.append(episodes())
    worker.update(dict.fromkeys(POWERS, 2), 0.01)
    buffer.away = True
    worker.hurry()
    assert buffer.hurried
    saved = worker.checkpoint()
    assert worker.checkpoint() == saved
    assert checkpoint_versions(tmp_path)[-1] == 1
    assert buffer.stats()["acknowledged"] == 0
    buffer.away = False
    resumed = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=True)
    assert resumed.version() == 1
    assert buffer.stats()["acknowledged"] == len(episodes())
    assert buffer.stats()["waiting"] == 0


def test_without_an_end_a_checkpoint_waits_for_the_server(tmp_path: Path) -> None:
    buffer = AwayBuffer(group_timeout_s=60)
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=False)
    buffer.append(episodes())
    worker.update(dict.fromkeys(POWERS, 2), 0.01)
    buffer.away = True
    with pytest.raises(ServerLostError):
        worker.checkpoint()
