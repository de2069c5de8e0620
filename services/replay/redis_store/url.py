"""A Redis server's url: shown without passwords, and checked before a connection."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis
from redis.exceptions import RedisError

from services.replay.buffer import ReplayError

TLS = "rediss"
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_EXAMPLE = "one looks like redis://:password@host:6379, or with TLS rediss://host:6380/0?ssl_ca_certs=/path/ca.pem"


def shown_address(url: str) -> str:
    """Return ``url`` for messages: ``***`` in place of a password, and no parameters (of TLS: paths, a password).

    A message has room for a few hundred letters, and its advice has to fit beside the address.
    """
    parts = urlsplit(url)
    place = parts.netloc
    if "@" in place:
        account, _, host = place.rpartition("@")
        place = (f"{account.split(':', 1)[0]}:***" if ":" in account else account) + f"@{host}"
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def client_of(url: str, **options: Any) -> redis.Redis:
    """Return a client, not connected yet. Raises ``ReplayError`` if the url or a file of it is unusable."""
    shown = shown_address(url)
    try:
        client = redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise ReplayError(f"{shown!r} is no Redis address ({error}); {_EXAMPLE}") from error
    pool = client.connection_pool
    given: Mapping[str, Any] = pool.connection_kwargs
    tls = sorted(name for name in given if name.startswith("ssl_"))
    if tls and urlsplit(url).scheme != TLS:
        raise ReplayError(f"{shown} is not encrypted, so that {', '.join(tls)} means nothing: write {TLS}:// for TLS")
    if given.get("ssl_check_hostname") is False or given.get("ssl_cert_reqs", "required") != "required":
        raise ReplayError(
            f"{shown} would trust any server with the password and the episodes: leave out ssl_cert_reqs and "
            "ssl_check_hostname, and name the CA of the server's certificate by ssl_ca_certs=/path/ca.pem"
        )
    try:
        pool.connection_class(**given)  # does not connect; redis-py checks the names only here
    except (TypeError, ValueError, RedisError) as error:
        unknown = str(error).partition("unexpected keyword argument ")[2] or str(error)
        raise ReplayError(
            f"{shown} has a parameter that redis-py does not take ({unknown}); of TLS there are {', '.join(_FILES)} "
            "and ssl_password"
        ) from error
    if tls:
        _check_files(given)
    return client


def _check_files(given: Mapping[str, Any]) -> None:
    """Load the files that redis-py loads at each connection: its errors name no file, and it may ask for passwords."""
    for name in _FILES:
        path = Path(given[name]) if name in given else None
        if path is not None and not path.is_absolute():
            raise ReplayError(
                f"{name} of redis.url: {path} must begin with /, for a run's processes are not all started here"
            )
        if path is not None and not (path.is_file() and os.access(path, os.R_OK)):
            raise ReplayError(
                f"{name} of redis.url: {path} is no file that can be read here; every machine of the run needs it there"
            )
    context = ssl.create_default_context()
    names = "ssl_ca_certs"
    try:
        if names in given:
            context.load_verify_locations(given[names])
        names = "ssl_certfile, ssl_keyfile"
        if "ssl_keyfile" in given and "ssl_certfile" not in given:
            raise ReplayError("redis.url has ssl_keyfile and no ssl_certfile: a key without its certificate")
        if "ssl_certfile" in given:
            key, password = given.get("ssl_keyfile"), given.get("ssl_password", "")
            context.load_cert_chain(given["ssl_certfile"], key, lambda: password)
    except ssl.SSLError as error:
        reason = error.reason or "unreadable"
        raise ReplayError(
            f"{names} of redis.url cannot be used ({reason.replace('_', ' ').lower()}): PEM files are needed, a key "
            "that belongs to its certificate, and ssl_password where the key has one"
        ) from error
