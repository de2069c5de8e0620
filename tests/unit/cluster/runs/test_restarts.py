"""Restarts: which errors restart a run, how often, and with which messages; and the learner's heartbeat."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from cluster.driver.heartbeat import HEARTBEAT_EVERY_S, MAX_STEP_S, Heartbeat, StallTimer
from cluster.errors import LateError, LostError, RunError
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import PAUSES_S, RESTARTS, keep_training, note_restart, restarts
from cluster.runtime.ray_calls import loss_of
from grpo_core.errors import CheckpointError, DivergenceError, StorageError
from services.replay.buffer import BlocksMissingError, ReplayError, ServerLostError

LOST = LostError("the learner died")


class Training:
    """A ``train`` that makes some updates and fails at each of its starts, and succeeds at the last."""

    def __init__(self, run_dir: Path, *starts: tuple[int, Exception]) -> None:
        self.folder = RunFolder(run_dir)
        self.starts = list(starts)
        self.resumed: list[bool] = []
        self.paused: list[float] = []
        self.said: list[str] = []

    def __call__(self, resume: bool) -> None:
        self.resumed.append(resume)
        if not self.starts:
            return
        version, error = self.starts.pop(0)
        self.folder.audit.mkdir(parents=True, exist_ok=True)
        for made in range(1, version + 1):
            record = self.folder.audit / f"{made:06d}.json"
            record.unlink(missing_ok=True)
            record.write_text("{}")
        if version:
            (self.folder.checkpoints / "0").mkdir(parents=True, exist_ok=True)
            (self.folder.checkpoints / "0" / "manifest.json").touch()
        raise error

    def keep(self, max_restarts: int = 3, *, resume: bool = False) -> None:
        keep_training(
            self,
            self.folder.path,
            resume=resume,
            max_restarts=max_restarts,
            say=self.said.append,
            sleep=self.paused.append,
        )


def test_a_lost_run_restarts_from_its_checkpoint_with_a_message_a_record_and_a_growing_pause(tmp_path: Path) -> None:
    gone = ServerLostError("no Redis server answers")
    training = Training(tmp_path, (2, LOST), (3, gone), (3, LateError("the learner did not answer")), (3, LOST))
    training.keep()
    assert training.resumed == [False, True, True, True, True]
    assert training.paused == [PAUSES_S[0], PAUSES_S[0], PAUSES_S[1], PAUSES_S[2]]
    assert "lost: the learner died; started again from the last checkpoint in 2 s (1 of 3 " in training.said[0]
    assert "(3 of 3 without a further update, run.max_restarts)" in training.said[-1]
    noted = restarts(tmp_path)
    assert [(restart.version, restart.reason) for restart in noted][:2] == [(2, str(LOST)), (3, str(gone))]
    with (tmp_path / RESTARTS).open("a") as file:
        file.write('{"time": 1')  # torn by a crash
    assert restarts(tmp_path) == noted


def test_restarts_without_a_further_update_are_limited(tmp_path: Path) -> None:
    # Only an update beyond all earlier ones resets the count; repeated updates do not.
    training = Training(tmp_path, (4, LOST), (5, LOST), (5, LOST), (3, LOST), (5, LOST), (9, LOST))
    with pytest.raises(RunError, match=r"died, and starting again 3 times led to no further update \(run.max_restarts"):
        training.keep()
    assert len(training.resumed) == 5
    with pytest.raises(RunError, match="the learner died; the last checkpoint is intact: go on with --resume") as ends:
        Training(tmp_path, (1, LOST)).keep(0, resume=True)
    assert not isinstance(ends.value, LostError)


def test_a_cluster_that_comes_back_slowly_after_an_accident_is_asked_again(tmp_path: Path) -> None:
    late = LateError("no Ray cluster at 192.0.2.1:6379")
    training = Training(tmp_path, (0, LOST), (0, late), (0, late))
    training.keep(resume=True)
    assert len(training.resumed) == 4
    with pytest.raises(LateError):  # at the first start it more likely is a wrong address
        Training(tmp_path, (0, late)).keep(resume=True)


def test_a_full_disk_ends_the_run_with_how_to_go_on(tmp_path: Path) -> None:
    full = StorageError("cannot write summary.json: the disk is full; free space there")
    training = Training(tmp_path, (0, full))
    with pytest.raises(StorageError, match=r"free space there, then start again$"):
        training.keep()
    training.starts = [(2, full)]
    with pytest.raises(StorageError, match=r"there, then go on with --resume: nothing that was durable is lost$"):
        training.keep()
    assert not training.said
    # The record of a restart is a write too.
    training.starts = [(3, LOST)]
    (tmp_path / RESTARTS).symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"restarts.jsonl: the disk is full; free space there, then go on with"):
        training.keep()


def test_a_restart_is_recorded_after_a_line_that_was_cut_short(tmp_path: Path) -> None:
    note_restart(tmp_path, 1, "first")
    with (tmp_path / RESTARTS).open("a") as file:
        file.write('{"time": 1')
    note_restart(tmp_path, 2, "second")
    note_restart(tmp_path, 3, "third")
    assert [restart.reason for restart in restarts(tmp_path)] == ["first", "second", "third"]


def test_a_run_that_died_before_its_first_checkpoint_starts_from_the_beginning(tmp_path: Path) -> None:
    training = Training(tmp_path, (0, LOST))
    training.keep()
    assert training.resumed == [False, False]


@pytest.mark.parametrize(
    "error",
    [
        RunError("another process is training in here"),
        ReplayError("the server refuses us"),
        BlocksMissingError("waited for complete blocks"),
        CheckpointError("model.safetensors is not what was written"),
        DivergenceError("the loss is not finite"),
        KeyError("a bug"),
    ],
)
def test_an_error_that_a_restart_would_repeat_ends_the_run_at_once(tmp_path: Path, error: Exception) -> None:
    training = Training(tmp_path, (2, error))
    with pytest.raises(type(error)) as ends:
        training.keep()
    assert ends.value is error
    assert not training.said
    assert not restarts(tmp_path)


@pytest.mark.parametrize("error", [LateError("the learner did not answer"), ServerLostError("nobody answers")])
def test_a_timeout_restarts_the_run_only_after_an_update(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "000001.json").write_text("{}")  # of an earlier process
    with pytest.raises(type(error)):
        Training(tmp_path, (0, error)).keep(resume=True)
    Training(tmp_path, (2, error)).keep(resume=True)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ServerLostError("no Redis server answers at redis://host:6379 (while we connect: refused)"), LateError),
        (ReplayError("the server refuses us: ServerLostError"), RunError),
        (RunError("the learner wrote no checkpoint"), RunError),
        (StorageError("cannot write checkpoints/0: the disk is full; free space there"), StorageError),
    ],
)
def test_a_constructor_that_lost_the_replay_server_raises_a_late_error(
    raised: Exception, kind: type[Exception]
) -> None:
    try:
        raise raised
    except type(raised) as error:
        cause = RayTaskError(
            "LearnerActor.__init__", traceback.format_exc(), error, "ray::LearnerActor", 7, "127.0.0.1"
        )
        failed = ActorDiedError(cause)
    lost = loss_of("the learner", failed)
    assert type(lost) is kind
    assert str(lost) == f"the learner could not start: {raised}"
    assert type(loss_of("the learner", ActorDiedError())) is LostError


class Process:
    """A learner's process with a simulated clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[float] = []
        self.answers = True

    def heartbeat(self, limit_s: float, answered: Callable[[object], bool] | None = None) -> Heartbeat:
        return Heartbeat(self.ask, limit_s, lambda: self.now, answered or (lambda ref: self.answers))

    def ask(self) -> object:
        self.asked.append(self.now)
        return len(self.asked)

    def check(self, heartbeat: Heartbeat, seconds: float, every: float = 0.5) -> None:
        for _ in range(round(seconds / every)):
            self.now += every
            heartbeat.check()


def test_a_learner_that_answers_is_asked_once_per_heartbeat_interval() -> None:
    process = Process()
    process.check(process.heartbeat(10), 100)
    assert 100 / (HEARTBEAT_EVERY_S + 0.5) <= len(process.asked) <= 100 / HEARTBEAT_EVERY_S + 1


def test_a_learner_that_does_not_answer_is_lost_within_its_limit() -> None:
    process = Process()
    heartbeat = process.heartbeat(10)
    process.check(heartbeat, 30)
    process.answers, silent_since = False, process.now
    with pytest.raises(LostError, match=r"no sign of life for 10 s \(run.silence_timeout_s\)"):
        process.check(heartbeat, 60)
    assert 10 <= process.now - silent_since <= 10 + HEARTBEAT_EVERY_S + 1
    process = Process()
    heartbeat = process.heartbeat(10)
    process.answers = False
    process.check(heartbeat, 9)
    process.answers = True  # a pause below the limit is accepted
    process.check(heartbeat, 9)
    process.answers = False
    process.check(heartbeat, 9)


def test_a_silent_or_dead_process_of_several_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    silent = Heartbeat(process.ask, 10, lambda: process.now, lambda ref: False, who="process 5 of the learner")
    with pytest.raises(LostError, match=r"^process 5 of the learner has given no sign of life"):
        process.check(silent, 60)

    def died(ref: object, limit_s: float, who: str) -> None:
        raise LostError(f"{who} died")

    monkeypatch.setattr("ray.wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr("cluster.driver.heartbeat.get_answer", died)
    clock = lambda: process.now  # noqa: E731
    of_several = Heartbeat(process.ask, 10, clock, who="process 5 of the learner")
    for heartbeat, shown in (
        (Heartbeat(process.ask, 10, clock), "the learner"),
        (of_several, "process 5 of the learner"),
    ):
        with pytest.raises(LostError, match=f"^{shown} died"):
            process.check(heartbeat, 60)


def test_time_in_which_the_driver_did_not_check_is_not_counted_against_the_learner() -> None:
    process = Process()
    heartbeat = process.heartbeat(10)
    process.answers = False
    process.check(heartbeat, 2)
    process.check(heartbeat, 3600, every=3600)  # an evaluation, or the driver itself was stopped
    process.answers = True
    process.check(heartbeat, 1)
    process.answers = False
    with pytest.raises(LostError):
        process.check(heartbeat, 3600 * (10 / MAX_STEP_S + 2), every=3600)


def test_time_in_which_the_driver_was_stopped_is_no_wait_for_an_update() -> None:
    process = Process()
    stall_timer = StallTimer(1800.0, lambda: process.now)
    process.now += 8 * 3600.0  # the driver was suspended overnight, and the update arrives a moment later
    assert not stall_timer.over()
    seen = 0
    while not stall_timer.over():
        process.now += 0.5
        seen += 1
    assert seen * 0.5 == pytest.approx(1800.0 - MAX_STEP_S, abs=1.0)
    stall_timer.restart()
    assert not stall_timer.over()


def test_the_end_of_the_learners_process_is_noticed_at_once() -> None:
    def died(ref: object) -> bool:
        raise LOST

    process = Process()
    with pytest.raises(LostError, match="died"):
        process.check(process.heartbeat(60, died), HEARTBEAT_EVERY_S)
