"""How long a call is repeated when a server's trouble changes; the clock is a fake one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from redis.exceptions import OutOfMemoryError

from services.replay.buffer import ServerLostError
from services.replay.redis_store import connection as module
from services.replay.redis_store.connection import Connection

ANSWER_S, AWAY_S = 30.0, 900.0


class Clock:
    """Stands for the module ``time`` and for the event that a call waits on."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, pause_s: float) -> None:
        self.now_s += pause_s

    def is_set(self) -> bool:
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def connection(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Connection:
    connection = Connection("redis://127.0.0.1:1/0", 5.0, ANSWER_S, AWAY_S, patient=True)
    connection._limits = connection._later_limits  # as after the first answer
    monkeypatch.setattr(connection, "_hurry", clock)
    return connection


def server(clock: Clock, *times: tuple[float, Exception]) -> Callable[[], str]:
    """An operation that fails until each of these times, in seconds from now, and then succeeds."""
    start_s = clock.now_s

    def operation() -> str:
        for until_s, error in times:
            if clock.now_s - start_s < until_s:
                raise error
        return "done"

    return operation


AWAY, FULL = redis.ConnectionError("refused"), OutOfMemoryError("command not allowed when used memory > 'maxmemory'")


def test_a_server_that_comes_back_full_gets_all_the_time_to_free_memory(clock: Clock, connection: Connection) -> None:
    assert connection.call("append", server(clock, (60.0, AWAY), (85.0, FULL))) == "done"
    assert connection.away_s == pytest.approx(60.0, abs=3.0)  # without the time in which it was full
    start_s = clock.now_s
    with pytest.raises(ServerLostError, match="nothing was freed for 30 s"):
        connection.call("append", server(clock, (60.0, AWAY), (2000.0, FULL)))
    assert 85.0 < clock.now_s - start_s < 95.0


def test_a_full_server_that_goes_away_is_waited_for_in_full(clock: Clock, connection: Connection) -> None:
    assert connection.call("append", server(clock, (25.0, FULL), (920.0, AWAY))) == "done"
    with pytest.raises(ServerLostError, match="within 900 s"):
        connection.call("append", server(clock, (25.0, FULL), (2000.0, AWAY)))


def test_the_wait_for_a_server_whose_trouble_changes_all_the_time_ends(clock: Clock, connection: Connection) -> None:
    start_s = clock.now_s
    changes = [(10.0 * step, AWAY if step % 2 else FULL) for step in range(1, 1000)]
    with pytest.raises(ServerLostError):
        connection.call("append", server(clock, *changes))
    assert clock.now_s - start_s <= ANSWER_S + AWAY_S
