"""One-line explanations of a server's errors, with what to do, and whether a retry may help."""

from __future__ import annotations

import re
import ssl
from urllib.parse import urlsplit

import redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    InvalidResponse,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from services.replay.buffer import ReplayError
from services.replay.redis_store.url import TLS

_AWAY = (redis.ConnectionError, redis.TimeoutError, MasterDownError, ReadOnlyError)  # a retry may help
_REFUSALS = (AuthenticationError, AuthorizationError)  # connection errors to redis-py, but a retry does not help
_IN_SCRIPT = "ACL failure in script"  # the beginning of the message when a script lacks a right
_NOT_OURS = ("WRONGTYPE", "hash value is not an integer")  # in the message about a key that no run writes like that
# X509_V_ERR_ numbers of OpenSSL.
_OTHER_NAME = (62, 64)  # host, IP address
_UNKNOWN_CA = (2, 18, 19, 20, 21)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")


def is_away(error: RedisError) -> bool:
    """Return whether the server cannot be reached, starts, or is being replaced by another: a retry may succeed."""
    return isinstance(error, _AWAY) and not isinstance(error, _REFUSALS) and _tls_trouble(error) is None


def is_full(error: RedisError) -> bool:
    """Return whether the server has no room, in memory or on its disk: a retry may succeed."""
    return isinstance(error, OutOfMemoryError) or (isinstance(error, ResponseError) and "MISCONF" in str(error))


def lacks_right(error: BaseException | None) -> bool:
    """Return whether the server's access list refuses the operation."""
    return isinstance(error, NoPermissionError) or (
        isinstance(error, ResponseError) and str(error).startswith(_IN_SCRIPT)
    )


def explanation(error: RedisError, shown_url: str, timeout_s: float) -> str:
    """Explain an error of a call that was tried for ``timeout_s``, and what to do; ``shown_url`` has no password."""
    server = f"the Redis server at {shown_url}"
    trouble = _tls_trouble(error)
    if trouble is not None:
        return _tls_explanation(trouble, server, urlsplit(shown_url).hostname or "")
    if lacks_right(error):
        command = re.search(r"run the '([^']+)' command", str(error))
        missing = f"the command {command[1]}: grant it +{command[1]}" if command else "a key: grant it ~entente:*"
        return f"{server} refuses its user {missing}; cluster/manifests/redis.yaml has all it needs"
    match error:
        case AuthenticationError() | AuthorizationError():
            return f"{server} refuses us: check user and password in [redis] url"
        case redis.ConnectionError() | redis.TimeoutError():
            return (
                f"no Redis server answers at {shown_url} within {timeout_s:g} s: is it running and "
                f"reachable{_perhaps_tls(error, shown_url)}? (Without [redis] url a run starts one in its folder.)"
            )
        case OutOfMemoryError():
            return (
                f"{server} is out of memory, and nothing was freed for {timeout_s:g} s: raise its maxmemory, "
                "or checkpoint more often (acknowledged episodes are freed)"
            )
        case ResponseError() if is_full(error):
            return f"{server} could not write its file for {timeout_s:g} s: is its disk full?"
        case ReadOnlyError() | MasterDownError():
            return f"{server} has been a replica for {timeout_s:g} s, which stores nothing: name the primary"
        case InvalidResponse():
            return f"what answers at {shown_url} does not speak Redis' protocol{_perhaps_tls(error, shown_url)}"
        case ResponseError() if str(error).startswith("NOGROUP"):
            return (
                f"{server} no longer has this run's episodes: they were flushed, or it restarted without its "
                "append-only file"
            )
        case ResponseError() if any(word in str(error) for word in _NOT_OURS):
            return (
                f"{server} has a key of this run (entente:*) that is not of the type that a run makes: something else "
                "wrote it; find it by TYPE, remove it by DEL, and go on with the run"
            )
        case _:
            return f"{server} fails"


def _tls_trouble(error: BaseException) -> ssl.SSLError | None:
    """Return the error that prevents an encrypted connection; None without one, or if the connection only broke."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ReplayError):  # errors before this call do not count
        if isinstance(seen, ssl.SSLError):
            return None if isinstance(seen, ssl.SSLEOFError | ssl.SSLZeroReturnError) else seen
        seen = seen.__cause__ or seen.__context__
    return None


def _tls_explanation(trouble: ssl.SSLError, server: str, host: str) -> str:
    if isinstance(trouble, ssl.SSLCertVerificationError):
        if trouble.verify_code in _OTHER_NAME:
            return (
                f"{server} shows a certificate that is not for {host}: write a name that the certificate has, or have "
                "one made for this name"
            )
        if trouble.verify_code in _UNKNOWN_CA:
            return (
                f"{server} shows a certificate of a CA that is unknown here: name the CA's file by "
                "?ssl_ca_certs=/path/ca.pem in [redis] url, at the same path on every machine"
            )
        return f"{server} shows a certificate that is not valid ({trouble.verify_message}): renew it"
    reason = trouble.reason or ""
    if reason in _NOT_TLS:
        return f"{server} does not speak TLS on this port: name its TLS port, or write redis:// for one without"
    if "ALERT" in reason:
        return (
            f"{server} refuses our side of TLS: does it ask for a certificate? Name one of its CA by "
            "?ssl_certfile=/path/cert.pem&ssl_keyfile=/path/key.pem in [redis] url"
        )
    return f"{server} has no TLS version or cipher in common with this client"


def _perhaps_tls(error: RedisError, shown_url: str) -> str:
    """Hint that only one side may use TLS.

    A server with TLS closes a plain connection or sends an alert; one without TLS waits for the rest of a command.
    """
    broke_off = "closed by server" in str(error) or isinstance(error.__context__, ConnectionResetError)
    if urlsplit(shown_url).scheme == TLS:
        if isinstance(error, redis.TimeoutError) and "connecting" in str(error):
            return ", and does this port speak TLS (else name the one that does, or write redis://)"
        return ", and does it ask for a certificate (ssl_certfile and ssl_keyfile in [redis] url)" if broke_off else ""
    wants = urlsplit(shown_url).scheme == "redis" and (broke_off or isinstance(error, InvalidResponse))
    return ", and does it want TLS (then write rediss://)" if wants else ""
