"""The addresses of a run's external replay servers, with the environment's password."""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit, urlunsplit

from services.settings import RedisSettings

PASSWORD_VARIABLE = "ENTENTE_REDIS_PASSWORD"  # noqa: S105  (the variable's name)


def with_password(url: str, password: str | None) -> str:
    """Add the password to a URL without one, so that files and command lines need not contain it."""
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def external_urls(settings: RedisSettings) -> tuple[str, ...]:
    """URLs of the servers that ``redis.url`` or ``redis.urls`` name, with the password; empty if they name none."""
    return tuple(with_password(url, os.environ.get(PASSWORD_VARIABLE)) for url in settings.external)
