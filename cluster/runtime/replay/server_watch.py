"""Watches external replay servers: says when one is away and back, and for how long everything else stands still."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from cluster.errors import ServerAwayError
from cluster.runtime.stop_signals import shielded

ASK_EVERY_S = 2.0
SAY_EVERY_S = 60.0  # while it is away


class ServerWatch:
    """Asks each server for a sign of life, in a thread; a context manager, which ends the thread.

    The run's processes wait for a server where they need it (``Connection``), so nothing has to be stopped or started
    again. Their time limits stand still meanwhile: see ``away_s``.
    """

    def __init__(
        self,
        answers: Mapping[str, Callable[[], bool]],
        limit_s: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet. ``answers`` asks the server at each address once; empty: there is nothing to watch.

        ``limit_s`` is the longest absence that ``check`` accepts; ``say`` shows the user a line.
        """
        self._answers = answers
        self._where = ""  # the servers that did not answer the last question
        self._limit_s = limit_s
        self._say = say
        self._clock = clock
        self._since: float | None = None  # of the absence under way, by the clock
        self._said: float | None = None  # when a line was last said about it
        self._before_s = 0.0  # seconds of absences that are over
        self._mutex = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin to ask."""
        if self._answers:
            self._thread = threading.Thread(target=self._ask_repeatedly, name="entente-server-watch", daemon=True)
            with shielded():  # it runs while Ray starts
                self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop asking; a question under way is not waited for."""
        self._ends.set()

    def away_s(self) -> float:
        """Return how many seconds a server has been away in all, the absence under way included."""
        with self._mutex:
            return self._before_s + (0.0 if self._since is None else self._clock() - self._since)

    def check(self) -> None:
        """Raise ServerAwayError if a server has been away for longer than the limit."""
        with self._mutex:
            away_s = 0.0 if self._since is None else self._clock() - self._since
        if away_s > self._limit_s:
            raise ServerAwayError(
                f"no Redis server has answered at {self._where} for {away_s:.0f} s (redis.away_timeout_s = "
                f"{self._limit_s:g}); nothing durable is lost: go on with --resume when the server is back"
            )

    def ask(self) -> None:
        """Ask once, and say what has changed; an absence counts from the question that was not answered."""
        assert self._answers, "there is nothing to watch"
        asked = self._clock()
        silent = [where for where, answers in self._answers.items() if not answers()]
        with self._mutex:
            now, since = self._clock(), self._since
            if silent:
                self._where = " and ".join(silent)
                self._since = asked if since is None else since
                if since is not None:  # the second question in a row: a single lost answer is not worth a line
                    self._tell(now, now - since)
                return
            if since is not None:
                self._before_s += now - since
                if self._said is not None:
                    self._say(f"the replay server is back after {now - since:.0f} s: going on")
            self._since = self._said = None

    def _tell(self, now: float, away_s: float) -> None:
        if self._said is None:
            self._say(
                f"the replay server at {self._where} does not answer: waiting for it, at most {self._limit_s:g} s "
                "(redis.away_timeout_s)"
            )
        elif now - self._said < SAY_EVERY_S or away_s > self._limit_s:
            return
        else:
            self._say(f"the replay server has been away for {away_s:.0f} s of at most {self._limit_s:g} s")
        self._said = now

    def _ask_repeatedly(self) -> None:
        while not self._ends.wait(ASK_EVERY_S):
            self.ask()
