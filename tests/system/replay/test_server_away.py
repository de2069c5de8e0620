"""A server that is away for longer than it may take to answer: waited for, with nothing lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import MasterDownError, ReadOnlyError, ResponseError

from cluster.drill.external_server import ExternalServer
from services.replay.buffer import ServerLostError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.error_messages import explanation, is_away, is_full
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system

CONNECT_S, ANSWER_S, AWAY_S = 0.5, 1.0, 600.0
OUTAGE_S = 4.0  # several times as long as an answer may take


@pytest.fixture
def external(tmp_path: Path) -> Iterator[ExternalServer]:
    with ExternalServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def buffers(external: ExternalServer, run: str) -> Iterator[Callable[..., RedisBuffer]]:
    made: list[RedisBuffer] = []

    def make(**options: Any) -> RedisBuffer:
        limits: dict[str, Any] = {"answer_timeout_s": ANSWER_S, "away_timeout_s": AWAY_S, **options}
        made.append(RedisBuffer(external.url, run, 600.0, CONNECT_S, **limits))
        return made[-1]

    yield make
    for buffer in made:
        buffer.close()


def go_away(server: ExternalServer, how: str) -> None:
    server.kill() if how == "killed" else server.stop()


@contextmanager
def threads_that_wait(count: int, *buffers: RedisBuffer) -> Iterator[ThreadPoolExecutor]:
    """Threads that use these buffers, which do not wait for the server once the block has failed."""
    with ThreadPoolExecutor(count) as threads:
        try:
            yield threads
        except BaseException:
            for buffer in buffers:
                buffer.hurry()
            raise


@contextmanager
def later(act: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Act after the outage, during the block, which ends no sooner."""
    timer = threading.Timer(OUTAGE_S, act, arguments)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def come_back(server: ExternalServer, how: str) -> None:
    server.start_again() if how == "killed" else server.go_on()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_appends_and_takes_go_on_when_the_server_is_back(
    external: ExternalServer, buffers: Callable[..., RedisBuffer], how: str
) -> None:
    learner, rollouts = buffers(), [buffers() for _ in range(4)]
    rollouts[0].append([*block("a"), episode("b", 0)])
    used = learner.take({"FRANCE": 1}, 0)
    with threads_that_wait(8, learner, *rollouts) as threads:
        go_away(external, how)
        # Two of the workers play the same games.
        stored = [
            threads.submit(buffer.append, [episode("b", 1), *block(f"c{number // 2}")])
            for number, buffer in enumerate(rollouts)
        ]
        taken: Future[Any] = threads.submit(learner.take, {"FRANCE": 3}, 300)
        time.sleep(OUTAGE_S)
        assert not taken.done()
        assert not any(future.done() for future in stored)
        come_back(external, how)
        delivery = taken.result(300)
        assert sum(future.result(300) for future in stored) == 5
    assert sorted(ids(delivery)) == ["b/0", "b/1", "c0/0", "c0/1", "c1/0", "c1/1"]
    learner.acknowledge([*used.receipts, *delivery.receipts])
    stats = learner.stats()
    assert (stats["acknowledged"], stats["waiting"], stats["delivered"]) == (8, 0, 0)
    assert stats["duplicates"] >= 7


def test_the_time_for_blocks_stands_still_while_the_server_is_away(
    external: ExternalServer, buffers: Callable[..., RedisBuffer]
) -> None:
    learner, rollout = buffers(), buffers()
    rollout.append(episode_pair := block("a"))
    learner.stats()
    external.kill()
    with threads_that_wait(1, learner) as threads:
        taken = threads.submit(learner.take, {"FRANCE": 1}, 0.2)
        time.sleep(OUTAGE_S)
        external.start_again()
        assert ids(taken.result(300)) == [each.episode_id for each in episode_pair]


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_an_acknowledgement_during_an_outage_is_carried_out_once(
    external: ExternalServer, buffers: Callable[..., RedisBuffer], how: str
) -> None:
    learner = buffers()
    learner.append([*block("a"), *block("b")])
    used = learner.take({"FRANCE": 1}, 0)
    go_away(external, how)
    with later(come_back, external, how):
        learner.acknowledge(used.receipts)
    assert learner.stats()["acknowledged"] == 2
    assert ids(learner.take({"FRANCE": 1}, 60)) == ["b/0", "b/1"]


def test_only_a_patient_connection_waits_for_its_first_answer(external: ExternalServer, run: str) -> None:
    external.kill()
    with pytest.raises(ServerLostError, match=r"within 0\.5 s"):
        RedisBuffer(external.url, run, 600.0, CONNECT_S, answer_timeout_s=ANSWER_S, away_timeout_s=AWAY_S)
    with later(external.start_again):
        patient = RedisBuffer(
            external.url, run, 600.0, CONNECT_S, answer_timeout_s=ANSWER_S, away_timeout_s=AWAY_S, patient=True
        )
    assert patient.append(block("a")) == 2
    patient.close()


def test_the_wait_for_a_server_ends_at_its_limit_or_when_there_is_a_hurry(
    external: ExternalServer, buffers: Callable[..., RedisBuffer]
) -> None:
    limited, hurried = buffers(away_timeout_s=2.0), buffers()
    external.kill()
    with pytest.raises(ServerLostError, match=r"no Redis server answers at redis://.* within 2 s"):
        limited.append(block("a"))
    with threads_that_wait(1, hurried) as threads:
        waiting = threads.submit(hurried.append, block("a"))
        time.sleep(1.0)
        assert not waiting.done()
        hurried.hurry()
        with pytest.raises(ServerLostError):
            waiting.result(300)
        with pytest.raises(ServerLostError):
            hurried.append(block("b"))
    external.start_again()


def test_a_full_server_is_not_away(external: ExternalServer, buffers: Callable[..., RedisBuffer]) -> None:
    rollout = buffers()
    raw = redis.Redis.from_url(external.url)
    raw.config_set("maxmemory", 1)
    with pytest.raises(ServerLostError, match="out of memory, and nothing was freed for 1 s"):
        rollout.append(block("a"))
    raw.config_set("maxmemory", 0)
    assert rollout.append(block("a")) == 2


def test_a_connection_asks_once_whether_its_server_is_there(external: ExternalServer) -> None:
    connection = Connection(external.url, CONNECT_S)
    refused = Connection(external.url.replace("@", "wrong@"), CONNECT_S)
    assert connection.answers()
    assert refused.answers()  # it refuses the password, so it is there
    external.stop()
    assert not connection.answers()
    external.go_on()
    external.kill()
    assert not connection.answers()
    external.start_again()
    assert connection.answers()
    connection.close()
    refused.close()


def test_a_server_that_is_being_replaced_is_away_and_one_without_disk_is_full() -> None:
    replica, no_master = ReadOnlyError("You can't write against a read only replica."), MasterDownError("Link is down")
    no_disk = ResponseError("MISCONF Errors writing to the AOF file: No space left on device")
    assert is_away(replica)
    assert is_away(no_master)
    assert is_full(no_disk)
    assert not is_full(replica)
    assert not is_away(no_disk)
    assert not is_away(ResponseError("ERR unknown command"))
    assert "name the primary" in explanation(replica, "redis://h:1", 5)
    assert "could not write its file for 5 s: is its disk full" in explanation(no_disk, "redis://h:1", 5)
