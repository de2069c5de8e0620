"""The watch of an external replay server, with a simulated clock: what it says, counts and ends."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.runtime.replay.server_watch import ASK_EVERY_S, ServerWatch


class Server:
    """A server that answers or not, and the watch of it; an unanswered question takes five seconds."""

    def __init__(self, limit_s: float = 900.0) -> None:
        self.now = 100.0
        self.there = True
        self.said: list[str] = []
        self.watch = ServerWatch({"redis://host:6379": self.answers}, limit_s, self.said.append, lambda: self.now)

    def answers(self) -> bool:
        self.now += 0.001 if self.there else 5.0
        return self.there

    def go_on(self, seconds: float, *, there: bool) -> None:
        until, self.there = self.now + seconds, there
        while self.now < until:
            self.now += ASK_EVERY_S
            self.watch.ask()
            self.watch.check()


def test_a_server_that_was_away_for_ten_minutes_is_told_at_the_beginning_now_and_then_and_at_the_end() -> None:
    server = Server()
    server.go_on(60, there=True)
    assert server.watch.away_s() == 0.0
    server.go_on(600, there=False)
    server.go_on(60, there=True)
    first, *between, last = server.said
    assert first == (
        "the replay server at redis://host:6379 does not answer: waiting for it, at most 900 s (redis.away_timeout_s)"
    )
    assert last.startswith("the replay server is back after 6")
    assert 7 <= len(between) <= 10
    assert all("has been away for" in line and line.endswith("of at most 900 s") for line in between)
    assert 595 <= server.watch.away_s() <= 615


def test_one_lost_answer_is_not_worth_a_line() -> None:
    server = Server()
    server.go_on(1, there=False)
    server.go_on(60, there=True)
    assert server.said == []
    assert 0 < server.watch.away_s() < 15


def test_absences_add_up_and_each_has_the_whole_limit() -> None:
    server = Server(limit_s=100)
    for _ in range(3):
        server.go_on(80, there=False)
        server.go_on(10, there=True)
    assert 240 <= server.watch.away_s() <= 290
    with pytest.raises(
        RunError, match=r"answered at redis://host:6379 for \d+ s \(redis.away_timeout_s = 100\)"
    ) as end:
        server.go_on(200, there=False)
    assert "go on with --resume when the server is back" in str(end.value)


class Pair:
    """Two servers that answer at once, or not at all."""

    def __init__(self, limit_s: float = 900.0) -> None:
        self.now = 0.0
        self.there = {"first": True, "second": True}
        self.said: list[str] = []
        answers = {name: functools.partial(self.there.get, name, False) for name in self.there}
        self.watch = ServerWatch(answers, limit_s, self.said.append, lambda: self.now)

    def go_on(self, seconds: int, **there: bool) -> None:
        self.there.update(there)
        for _ in range(seconds // 2):
            self.now += 2
            self.watch.ask()
            self.watch.check()


def test_of_several_servers_the_silent_ones_are_named_and_time_stands_still_once() -> None:
    pair = Pair()
    pair.go_on(10)
    pair.go_on(20, second=False)
    assert "at second does not answer" in pair.said[0]
    pair.go_on(60, first=False)
    assert "at first does not answer" in pair.said[1]
    assert pair.watch.away_s() == pytest.approx(78, abs=2)
    pair.go_on(10, first=True, second=True)
    assert pair.said[-2:] == [
        "the replay server is back after 60 s (first): going on",
        "the replay server is back after 80 s (second): going on",
    ]
    assert pair.watch.away_s() == pytest.approx(80, abs=2)


def test_servers_that_restart_one_after_the_other_each_have_the_whole_limit() -> None:
    pair = Pair(limit_s=100)
    pair.go_on(60, first=False)
    pair.go_on(10, second=False)
    pair.go_on(60, first=True)  # 130 s since both answered, of which each was away for 70
    assert "the replay server is back after 70 s (first)" in pair.said
    pair.go_on(10, second=True)
    assert pair.watch.away_s() == pytest.approx(130, abs=2)
    with pytest.raises(RunError, match=r"has answered at second for 10\d s"):
        pair.go_on(200, second=False)


def test_the_runs_own_server_is_never_away() -> None:
    with ServerWatch({}, 0.0, print) as watch:
        watch.check()
        assert watch.away_s() == 0.0
    assert "entente-server-watch" not in {thread.name for thread in threading.enumerate()}


def test_a_watch_asks_in_a_thread_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.runtime.replay.server_watch.ASK_EVERY_S", 0.001)
    asked = threading.Semaphore(0)

    def answers() -> bool:
        asked.release()
        return True

    with ServerWatch({"": answers}, 1.0, print) as watch:
        assert all(asked.acquire(timeout=60) for _ in range(3))
        assert watch._thread is not None
    watch._thread.join(60)
    assert not watch._thread.is_alive()


@pytest.mark.skipif(
    sys.platform != "linux", reason="a thread's blocked signals are read in /proc, which only Linux has"
)
def test_the_watch_takes_no_signal_that_asks_the_run_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.runtime.replay.server_watch.ASK_EVERY_S", 0.001)
    # While Ray starts, such a signal ends the process without saving if any thread lets it through.
    blocked: list[int] = []
    asked = threading.Event()

    def answers() -> bool:
        status = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text()
        blocked.append(int(status.partition("SigBlk:")[2].split()[0], 16))
        asked.set()
        return True

    with ServerWatch({"redis://host:6379": answers}, 900.0, lambda _: None):
        assert asked.wait(60)
    assert all(blocked[0] >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGHUP))
