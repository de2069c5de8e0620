"""The run's replay server, embedded or external, and its clients: the replay buffer and the population's mirror."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from cluster.errors import RunError
from cluster.runtime.server_watch import ServerWatch
from grpo_core.errors import EntenteError, StorageError
from opponents.population.redis_mirror import PopulationMirror
from services.replay.buffer import ServerLostError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.redis_store.connection import Connection
from services.replay.server.embedded import EmbeddedServer
from services.settings import RedisSettings

GRACE_S = 60.0  # that a run's processes wait longer for an external server than its driver, which ends them
PASSWORD_VARIABLE = "ENTENTE_REDIS_PASSWORD"  # noqa: S105  (the variable's name)


def with_password(url: str, password: str | None) -> str:
    """Add the password to a URL without one, so that files and command lines need not contain it."""
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def external_url(settings: RedisSettings) -> str | None:
    """URL of the server that ``redis.url`` names, with the environment's password; None if it names none."""
    return None if settings.url is None else with_password(settings.url, os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def replay_server(settings: RedisSettings, folder: Path, say: Callable[[str], None] | None = None) -> Iterator[str]:
    """Yield the URL of the server that ``redis.url`` names, or of one started with its data in ``folder``.

    With ``say``, which shows the user a line, an external one that is away is waited for, as by a run under way.

    Raises ReplayError if no server can be started, or the external one does not answer; RunError if it was waited for
    in vain; StorageError if the server that was started cannot write its files, also when it ends because of that
    during the block.
    """
    url = external_url(settings)
    if url is not None:
        with nullcontext() if say is None else watched(settings, say) as watch:
            try:  # fails now, before anything is started
                with closing(redis_buffer(settings, url, "probe", patient=watch is not None, grace_s=0.0)) as probe:
                    probe.stored_ids(["probe/0"])
            except ServerLostError as error:
                if watch is None:
                    raise
                # It was away for the whole time limit, so this is no accident, after which the run starts again.
                raise RunError(f"{error}; go on with --resume when the server is back") from error
            if watch is not None:
                watch.ask()  # it says that the server is back
        yield url
        return
    with closing(EmbeddedServer.start(folder)) as server:
        try:
            yield server.url
        except EntenteError as error:
            if not isinstance(error, StorageError) and (refused := server.refused_write()):
                raise refused from error
            raise


def watched(settings: RedisSettings, say: Callable[[str], None]) -> ServerWatch:
    """The watch of the server that ``redis.url`` names; of the run's own one there is nothing to watch."""
    url = external_url(settings)
    if url is None:
        return ServerWatch(None, "", settings.away_timeout_s, say)
    connection = Connection(url, settings.connect_timeout_s)
    return ServerWatch(connection.answers, connection.shown_url, settings.away_timeout_s, say)


def redis_buffer(
    settings: RedisSettings, url: str, run_id: str, *, patient: bool = False, grace_s: float = GRACE_S
) -> RedisBuffer:
    """The buffer of one run on the server at ``url``, which it asks at once; ``patient``: an external one may be away.

    Without ``patient`` that holds only once it has answered.
    """
    return RedisBuffer(
        url,
        run_id,
        group_timeout_s=settings.group_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        away_timeout_s=_away_timeout_s(settings, grace_s),
        patient=patient,
        max_entry_bytes=settings.max_episode_mib << 20,
    )


def population_mirror(
    settings: RedisSettings, limit_mib: int, url: str, run_id: str, *, patient: bool = False
) -> PopulationMirror:
    """The mirror of one run on the server at ``url``; connects at its first use, ``patient`` as for a buffer."""
    return PopulationMirror(
        url,
        run_id,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        away_timeout_s=_away_timeout_s(settings, GRACE_S),
        patient=patient,
        limit_mib=limit_mib,
    )


def _away_timeout_s(settings: RedisSettings, grace_s: float) -> float | None:
    """Seconds to wait for an external server; None for the run's own, whose end is an accident of the run."""
    return None if settings.url is None else settings.away_timeout_s + grace_s
