"""A connection to a Redis server with time limits, whose errors explain in one line what to do."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from grpo_core.errors import one_line
from services.replay.buffer import ReplayError, ServerLostError
from services.replay.redis_store.error_messages import explanation, is_away, is_full, lacks_right
from services.replay.redis_store.url import client_of, shown_address

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 1.0
_SHOWN = 100  # characters of the server's own text, so that a long address leaves room for what to do
_OLDEST_MAJOR = 7  # scripts with flags; Valkey reports 7.2
_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Limits:
    """Seconds that a call may take: of a server that is there, and of one that cannot be reached."""

    answer_s: float
    away_s: float


class Connection:
    """A connection to one server. ``call`` repeats an operation after connection errors, for a bounded time."""

    def __init__(
        self,
        url: str,
        connect_timeout_s: float,
        answer_timeout_s: float | None = None,
        away_timeout_s: float | None = None,
        *,
        patient: bool = False,
    ) -> None:
        """Set the time limits; nothing is connected yet.

        ``connect_timeout_s`` is for the first answer and for each attempt, ``answer_timeout_s`` for every later answer,
        including a restart of the server (None: the same). ``away_timeout_s`` is for a server that cannot be reached
        later on (None: as ``answer_timeout_s``), or also at first if ``patient``. Raises ``ReplayError`` for a url that
        cannot be used.
        """
        self.shown_url = shown_address(url)
        self.away_s = 0.0  # that calls have waited for a server that could not be reached
        later_s = connect_timeout_s if answer_timeout_s is None else answer_timeout_s
        away_s = later_s if away_timeout_s is None else away_timeout_s
        self._later_limits = _Limits(later_s, max(later_s, away_s))
        self._limits = _Limits(connect_timeout_s, self._later_limits.away_s if patient else connect_timeout_s)
        self._hurry = threading.Event()
        self.client = client_of(
            url,
            socket_connect_timeout=connect_timeout_s,
            socket_timeout=connect_timeout_s,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),  # ``call`` repeats, because a lost reply needs care
        )

    def call(self, what: str, operation: Callable[[], T]) -> T:
        """Return ``operation()``, repeated with growing pauses while the connection fails; it must be safe to repeat.

        It is also repeated while the server is out of memory, because the learner's acknowledgements free memory.
        Raises ``ServerLostError`` if the server stays unreachable or full, ``ReplayError`` if it refuses. Each has its
        own limit, counted from when it began: a server that comes back full gets all the time to free memory.
        """
        since_s = time.monotonic()  # of the present trouble
        give_up_s = since_s + self._limits.answer_s + self._limits.away_s  # however often it changes
        was_away: bool | None = None
        away_since_s: float | None = None
        pause_s = _FIRST_BACKOFF_S
        while True:
            try:
                answer = operation()
            except RedisError as error:
                away = is_away(error)
                limit_s = self._limits.away_s if away else self._limits.answer_s
                now_s = time.monotonic()
                if was_away not in (None, away):
                    since_s, pause_s = now_s, _FIRST_BACKOFF_S
                was_away = away
                if not away:
                    self._count_away(away_since_s)
                    away_since_s = None
                elif away_since_s is None:
                    away_since_s = now_s
                passing = away or is_full(error)
                end_s = min(since_s + limit_s, give_up_s)
                if not passing or self._hurry.is_set() or now_s + pause_s > end_s:
                    kind = ServerLostError if passing else ReplayError
                    message = explanation(error, self.shown_url, limit_s)
                    raise kind(f"{message} (while we {what}: {one_line(error, _SHOWN)})") from error
            else:
                self._limits = self._later_limits
                self._count_away(away_since_s)
                return answer
            self._hurry.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)

    def _count_away(self, since_s: float | None) -> None:
        if since_s is not None:
            self.away_s += time.monotonic() - since_s

    def hurry(self) -> None:
        """From now on, do not wait for the server: calls under way and later ones fail at their next attempt."""
        self._hurry.set()

    def answers(self) -> bool:
        """Ask once whether the server is there; a server that refuses is."""
        try:
            self.client.ping()
        except RedisError as error:
            return not is_away(error)
        return True

    def check_server(self) -> None:
        """Raise ``ReplayError`` for servers that are too old or would drop episodes."""
        facts = self._facts("connect", "server", "memory", "persistence")
        if not facts:
            return
        version = one_line(facts.get("redis_version", "0"), 40)
        major = re.match(r"\d{1,4}", version, re.ASCII)
        if major is None or int(major[0]) < _OLDEST_MAJOR:
            raise ReplayError(f"{self.shown_url} runs Redis {version}; Entente needs Redis 7 or Valkey")
        policy = one_line(facts.get("maxmemory_policy", "noeviction"), 40)
        if _number(facts, "maxmemory") > 0 and policy.startswith("allkeys"):
            raise ReplayError(
                f"{self.shown_url} evicts keys when memory is short (maxmemory-policy {policy}), which would lose "
                "episodes: set maxmemory-policy noeviction"
            )
        if facts.get("aof_enabled", 1) == 0:
            _log.warning(
                "%s keeps episodes in memory only and loses them when it stops: set appendonly yes, appendfsync always",
                self.shown_url,
            )

    def memory(self) -> dict[str, float]:
        """Return the bytes that the server uses (``used``) and may use (``limit``, if set); raises as ``call`` does."""
        facts = self._facts("ask for its memory", "memory")
        found = {"used": _number(facts, "used_memory"), "limit": _number(facts, "maxmemory")}
        return {name: value for name, value in found.items() if value > 0}

    def _facts(self, what: str, *sections: str) -> dict[str, Any]:
        """Return the server's facts; none for a restricted account, which may not read them."""
        try:
            answers: list[Any] = self.call(what, lambda: [self.client.info(section) for section in sections])
        except ReplayError as error:
            if lacks_right(error.__cause__):
                return {}
            raise
        return {name: value for answer in answers for name, value in answer.items()}

    def close(self) -> None:
        """Close the sockets."""
        self.client.close()


def _number(facts: dict[str, Any], name: str) -> float:
    """Return a number among the server's facts; 0 where it has none."""
    value = facts.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
