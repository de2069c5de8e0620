"""The run's replay server: its own, embedded one, or the external one that the config names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlsplit, urlunsplit

from cluster.configs.schema import Config
from cluster.runs.folder import RunFolder
from cluster.runtime.redis_clients import redis_buffer
from services.replay.server.embedded import EmbeddedServer

PASSWORD_VARIABLE = "ENTENTE_REDIS_PASSWORD"  # noqa: S105  (the variable's name)


def with_password(url: str, password: str | None) -> str:
    """The URL with a password where it has none; so that no password needs to stand in a file or command line."""
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def external_url(config: Config) -> str | None:
    """Of the replay server that ``redis.url`` names, with the password of the environment; None where it names none."""
    url = config.redis.url
    return None if url is None else with_password(url, os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def replay_server(config: Config, folder: RunFolder) -> Iterator[str]:
    """The URL of the replay server: the one ``redis.url`` names, or one started in the run folder.

    Raises:
        ReplayError: no server can be started, or the external one does not answer.
    """
    url = external_url(config)
    if url is not None:
        probe = redis_buffer(config, url, "probe")
        try:
            probe.stored_ids(["probe/0"])  # now, before anything is started
        finally:
            probe.close()
        yield url
        return
    folder.redis.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer.start(folder.redis)
    try:
        yield server.url
    finally:
        server.close()
