"""The run's replay server: an embedded one, or the external one that the config names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from cluster.runtime.redis_clients import redis_buffer
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

    Raises:
        ReplayError: no server can be started, or the external one does not answer.
    """
    url = external_url(settings)
    if url is not None:
        probe = redis_buffer(settings, url, "probe")
        try:
            probe.stored_ids(["probe/0"])  # fails now, before anything is started
        finally:
            probe.close()
        yield url
        return
    folder.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer.start(folder)
    try:
        yield server.url
    finally:
        server.close()
