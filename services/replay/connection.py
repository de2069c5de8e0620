"""A time-limited connection to a Redis server, whose failures are told in one line that says what to do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from services.replay.buffer import ReplayError, ServerLostError

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 1.0
_OLDEST_MAJOR = 7  # scripts with flags; Valkey reports 7.2
_PASSING = (redis.ConnectionError, redis.TimeoutError, OutOfMemoryError)  # what may be over when it is tried again
_REFUSALS = (AuthenticationError, AuthorizationError)  # connection errors to redis-py, but no repetition helps
_log = logging.getLogger(__name__)

T = TypeVar("T")


def hide_password(url: str) -> str:
    """``url`` as it may be shown: the password, wherever it stands, becomes ``***``."""
    parts = urlsplit(url)
    place = parts.netloc
    if "@" in place:
        account, _, host = place.rpartition("@")
        place = (f"{account.split(':', 1)[0]}:***" if ":" in account else account) + f"@{host}"
    query = urlencode([(k, "***" if k == "password" else v) for k, v in parse_qsl(parts.query)], safe="*/")
    return urlunsplit((parts.scheme, place, parts.path, query, ""))


class Connection:
    """One server. ``call`` repeats what a lost connection cut off, for a bounded time."""

    def __init__(self, url: str, connect_timeout_s: float, answer_timeout_s: float | None = None) -> None:
        """Nothing is connected yet.

        Args:
            url: of the server.
            connect_timeout_s: for the first answer; also for each of the repeated tries.
            answer_timeout_s: for every answer after it, a restart of the server or a stalled machine included; None:
                the same.
        """
        self.shown_url = hide_password(url)
        self._timeout_s = connect_timeout_s
        self._later_timeout_s = connect_timeout_s if answer_timeout_s is None else answer_timeout_s
        try:
            self.client = redis.Redis.from_url(
                url,
                socket_connect_timeout=connect_timeout_s,
                socket_timeout=connect_timeout_s,
                socket_keepalive=True,
                retry=Retry(NoBackoff(), 0),  # we repeat ourselves: a lost reply needs care
            )
        except ValueError as error:
            raise ReplayError(
                f"{self.shown_url!r} is no Redis address ({error}); one looks like redis://:password@host:6379"
            ) from error

    def call(self, what: str, operation: Callable[[], T]) -> T:
        """``operation()``, repeated with growing pauses while the connection fails; it must be safe to repeat.

        So it is while the server is out of memory: the learner's acknowledgements free some.

        Raises:
            ServerLostError: the server was not reached, or was full, for all of the time limit; says what was awaited.
            ReplayError: it refuses us.
        """
        give_up_s = time.monotonic() + self._timeout_s
        pause_s = _FIRST_BACKOFF_S
        while True:
            try:
                answer = operation()
                self._timeout_s = self._later_timeout_s
                return answer
            except RedisError as error:
                passing = isinstance(error, _PASSING) and not isinstance(error, _REFUSALS)
                if not passing or time.monotonic() + pause_s > give_up_s:
                    kind = ServerLostError if passing else ReplayError
                    raise kind(f"{self._explain(error)} (while we {what}: {error})") from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_BACKOFF_S)

    def _explain(self, error: RedisError) -> str:
        """What went wrong, and what to do about it."""
        server = f"the Redis server at {self.shown_url}"
        match error:
            case AuthenticationError() | AuthorizationError() | NoPermissionError():
                return f"{server} refuses us: check user and password in [redis] url"
            case redis.ConnectionError() | redis.TimeoutError():
                return (
                    f"no Redis server answers at {self.shown_url} within {self._timeout_s:g} s: is it running and "
                    "reachable? Unset [redis] url to have one started in the run folder"
                )
            case OutOfMemoryError():
                return (
                    f"{server} is out of memory, and nothing was freed for {self._timeout_s:g} s: raise its maxmemory, "
                    "or checkpoint more often (acknowledged episodes are freed)"
                )
            case ResponseError() if str(error).startswith("NOGROUP"):
                return (
                    f"{server} no longer has this run's episodes: they were flushed, or it restarted without its "
                    "append-only file"
                )
            case _:
                return f"{server} fails"

    def check_server(self) -> None:
        """Refuses servers that are too old, or would silently throw episodes away.

        Raises:
            ReplayError: says which, and which setting to change.
        """
        try:
            facts = self.call("connect", self._info)
        except ReplayError as error:
            if isinstance(error.__cause__, NoPermissionError):
                return  # a locked-down account may not ask; then nothing can be said
            raise
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
                "%s keeps episodes in memory only, so that they die with it: set appendonly yes, appendfsync always",
                self.shown_url,
            )

    def memory(self) -> dict[str, float]:
        """Bytes that the server uses (``used``) and may use (``limit``, where it is told); empty where it will not say.

        Raises:
            ReplayError: as ``call`` does.
        """
        try:
            facts: dict[str, str | int | float] = self.call("ask for its memory", lambda: self.client.info("memory"))
        except ReplayError as error:
            if isinstance(error.__cause__, NoPermissionError):
                return {}
            raise
        told = {"used": float(facts.get("used_memory", 0)), "limit": float(facts.get("maxmemory", 0))}
        return {name: value for name, value in told.items() if value > 0}

    def _info(self) -> dict[str, str | int | float]:
        server: dict[str, str | int | float] = self.client.info("server")
        memory: dict[str, str | int | float] = self.client.info("memory")
        persistence: dict[str, str | int | float] = self.client.info("persistence")
        return {**server, **memory, **persistence}

    def close(self) -> None:
        """Drop the sockets."""
        self.client.close()
