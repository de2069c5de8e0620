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
        self._limit_s = limit_s
        self._say = say
        self._clock = clock
        self._since: dict[str, float] = {}  # of each server that is away, by the clock
        self._said: dict[str, float] = {}  # when a line was last said about it
        self._all_since = 0.0  # since when one or another has been away, if any is
        self._before_s = 0.0  # seconds of earlier times in which one or another was
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
        """Return for how many seconds at least one server has been away so far."""
        with self._mutex:
            return self._before_s + (self._clock() - self._all_since if self._since else 0.0)

    def check(self) -> None:
        """Raise ServerAwayError if a server has been away for longer than the limit."""
        with self._mutex:
            now = self._clock()
            too_long = {where: now - since for where, since in self._since.items() if now - since > self._limit_s}
        if too_long:
            raise ServerAwayError(
                f"no Redis server has answered at {' and '.join(too_long)} for {max(too_long.values()):.0f} s "
                f"(redis.away_timeout_s = {self._limit_s:g}); nothing durable is lost: go on with --resume when the "
                "server is back"
            )

    def ask(self) -> None:
        """Ask once, and say what has changed; an absence counts from the question that was not answered."""
        assert self._answers, "there is nothing to watch"
        asked = self._clock()
        silent = [where for where, answers in self._answers.items() if not answers()]
        with self._mutex:
            now, before = self._clock(), self._since
            self._since = {where: before.get(where, asked) for where in silent}
            if not before:
                self._all_since = asked
            elif not silent:
                self._before_s += now - self._all_since
            for where, since in before.items():
                if where in self._since:  # the second question in a row: a single lost answer is not worth a line
                    self._tell(where, now, now - since)
                elif self._said.pop(where, None) is not None:
                    go_on = "" if silent else ": going on"
                    self._say(f"the replay server is back after {now - since:.0f} s ({where}){go_on}")

    def _tell(self, where: str, now: float, away_s: float) -> None:
        said = self._said.get(where)
        if said is None:
            self._say(
                f"the replay server at {where} does not answer: waiting for it, at most {self._limit_s:g} s "
                "(redis.away_timeout_s)"
            )
        elif now - said < SAY_EVERY_S or away_s > self._limit_s:
            return
        else:
            self._say(f"the replay server at {where} has been away for {away_s:.0f} s of at most {self._limit_s:g} s")
        self._said[where] = now

    def _ask_repeatedly(self) -> None:
        while not self._ends.wait(ASK_EVERY_S):
            self.ask()
