"""The run's replay server, embedded or external, and its clients: the replay buffer and the population's mirror."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from opponents.population.redis_mirror import PopulationMirror
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.settings import RedisSettings

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
def replay_server(settings: RedisSettings, folder: Path) -> Iterator[str]:
    """Yield the URL of the server that ``redis.url`` names, or of one started with its data in ``folder``.

    Raises ReplayError if no server can be started, or the external one does not answer.
    """
    url = external_url(settings)
    if url is not None:
        with closing(redis_buffer(settings, url, "probe")) as probe:
            probe.stored_ids(["probe/0"])  # fails now, before anything is started
        yield url
        return
    folder.mkdir(parents=True, exist_ok=True)
    with closing(EmbeddedServer.start(folder)) as server:
        yield server.url


def redis_buffer(settings: RedisSettings, url: str, run_id: str) -> RedisBuffer:
    """The buffer of one run on the server at ``url``; connects at its first use."""
    return RedisBuffer(
        url,
        run_id,
        group_timeout_s=settings.group_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
    )


def population_mirror(settings: RedisSettings, limit_mib: int, url: str, run_id: str) -> PopulationMirror:
    """The mirror of one run on the server at ``url``; connects at its first use."""
    return PopulationMirror(
        url,
        run_id,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        limit_mib=limit_mib,
    )
