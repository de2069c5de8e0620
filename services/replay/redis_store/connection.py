"""A connection to a Redis server with time limits, whose errors explain in one line what to do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from services.replay.buffer import ReplayError, ServerLostError
from services.replay.redis_store.error_messages import explanation, lacks_right, may_pass
from services.replay.redis_store.url import client_of, hide_password

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 1.0
_OLDEST_MAJOR = 7  # scripts with flags; Valkey reports 7.2
_log = logging.getLogger(__name__)

T = TypeVar("T")


class Connection:
    """A connection to one server. ``call`` repeats an operation after connection errors, for a bounded time."""

    def __init__(self, url: str, connect_timeout_s: float, answer_timeout_s: float | None = None) -> None:
        """Set the time limits; nothing is connected yet.

        ``connect_timeout_s`` is for the first answer and for each attempt, ``answer_timeout_s`` for every later answer,
        including a restart of the server (None: the same). Raises ``ReplayError`` for a url that cannot be used.
        """
        self.shown_url = hide_password(url)
        self._timeout_s = connect_timeout_s
        self._later_timeout_s = connect_timeout_s if answer_timeout_s is None else answer_timeout_s
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
        Raises ``ServerLostError`` if the server stays unreachable or full, ``ReplayError`` if it refuses.
        """
        give_up_s = time.monotonic() + self._timeout_s
        pause_s = _FIRST_BACKOFF_S
        while True:
            try:
                answer = operation()
                self._timeout_s = self._later_timeout_s
                return answer
            except RedisError as error:
                passing = may_pass(error)
                if not passing or time.monotonic() + pause_s > give_up_s:
                    kind = ServerLostError if passing else ReplayError
                    message = explanation(error, self.shown_url, self._timeout_s)
                    raise kind(f"{message} (while we {what}: {error})") from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)

    def check_server(self) -> None:
        """Raise ``ReplayError`` for servers that are too old or would drop episodes."""
        facts = self._facts("connect", "server", "memory", "persistence")
        if not facts:
            return
        version = str(facts.get("redis_version", "0"))
        if int(version.split(".")[0]) < _OLDEST_MAJOR:
            raise ReplayError(f"{self.shown_url} runs Redis {version}; Entente needs Redis 7 or Valkey")
        policy = str(facts.get("maxmemory_policy", "noeviction"))
        if int(facts.get("maxmemory", 0)) > 0 and policy.startswith("allkeys"):
            raise ReplayError(
                f"{self.shown_url} evicts keys when memory is short (maxmemory-policy {policy}), which would lose "
                "episodes: set maxmemory-policy noeviction"
            )
        if not int(facts.get("aof_enabled", 1)):
            _log.warning(
                "%s keeps episodes in memory only and loses them when it stops: set appendonly yes, appendfsync always",
                self.shown_url,
            )

    def memory(self) -> dict[str, float]:
        """Return the bytes that the server uses (``used``) and may use (``limit``, if set); raises as ``call`` does."""
        facts = self._facts("ask for its memory", "memory")
        found = {"used": float(facts.get("used_memory", 0)), "limit": float(facts.get("maxmemory", 0))}
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
