"""``entente doctor``'s checks of access: Ray's token, the replay server's password and encryption."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cluster.configs.sections import RunSettings
from cluster.diagnostics.finding import Finding, fault, ok, warn
from cluster.errors import RunError
from cluster.runs.ray_job import in_job
from cluster.runtime.ray_session import check_reachable
from cluster.runtime.replay.addresses import PASSWORD_VARIABLE, external_urls
from cluster.runtime.replay.clients import redis_buffer
from grpo_core.errors import EntenteError
from services.replay.redis_store.url import shown_address
from services.replay.server.embedded import EmbeddedServer
from services.settings import RedisSettings

_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_WAYS = f"{_TOKEN}, a file that {_TOKEN_PATH} names, or ~/.ray/auth_token"


def on_cluster(run: RunSettings) -> bool:
    """Whether the run's actors will be on an existing Ray cluster."""
    return run.ray_address is not None or in_job()


def ray_access(run: RunSettings) -> Iterator[Finding]:
    """Check the token that Ray requires, and the address of its cluster."""
    yield _authentication(run)
    address = os.environ.get("RAY_ADDRESS")
    if address and run.ray_address is None:
        yield warn("ray", f"RAY_ADDRESS={address} is set; a run starts its own Ray unless run.ray_address is set")
    if run.ray_address is not None:
        try:
            check_reachable(run.ray_address)
        except RunError as error:
            yield fault("ray cluster", str(error))
        else:
            yield ok("ray cluster", f"{run.ray_address} takes connections")


def _authentication(run: RunSettings) -> Finding:
    subject = "ray authentication"
    mode = os.environ.get(_MODE)
    if mode is not None and mode.lower() != "token":
        taken = "" if mode.lower() == "disabled" else f", which Ray takes for disabled ({mode!r})"
        return warn(
            subject,
            f"{_MODE} is not token{taken}: any client that reaches Ray's ports runs programs as you; unset it, or set "
            "token, here and on every node",
        )
    try:
        source = token_source()
    except RunError as error:
        return fault(subject, str(error))
    if source is None and not on_cluster(run):
        return ok(subject, "Ray asks for a token, which is made at ~/.ray/auth_token")
    if source is None and mode is None:
        return warn(
            subject,
            "no token here: a cluster that asks for one refuses this run, and one that does not lets anyone in; "
            f"have the head's token in {_WAYS}",
        )
    if source is None:
        return fault(subject, f"{_MODE} is token and there is none: have the head's token in {_WAYS}")
    if isinstance(source, Path) and _others_may_read(source):
        return warn(subject, f"others of this machine may read the token in {source}: chmod 600 {source}")
    return ok(subject, f"Ray asks for the token in {source}")


def _others_may_read(path: Path) -> bool:
    """Whether other users can read the file, through the folders above it in the owner's home."""
    home = Path.home()
    folders = [folder for folder in path.absolute().parents if folder.is_relative_to(home)] or [path.parent]
    passable = all(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in folders)
    return passable and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def token_source() -> Path | str | None:
    """The source of Ray's token: the name of a variable, or a file; None without a token.

    Raises RunError if the named file has no token.
    """
    if os.environ.get(_TOKEN, "").strip():
        return _TOKEN
    named = os.environ.get(_TOKEN_PATH)
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        found = bool(path.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        found = False
    if named and not found:
        raise RunError(
            f"{_TOKEN_PATH} names {named}, which cannot be read or is empty: write the token there, or unset it"
        )
    return path if found else None


def replay_access(redis: RedisSettings) -> Iterator[Finding]:
    """Check that each replay server answers, and which other clients it accepts."""
    if urls := external_urls(redis):
        for url in urls:
            try:
                _ping(redis, url)
                yield _openness(url, which=f" {shown_address(url)}" if len(urls) > 1 else "")
            except EntenteError as error:
                yield fault("redis", str(error))
        return
    try:
        with (
            tempfile.TemporaryDirectory(prefix="entente-doctor-") as folder,
            EmbeddedServer.start(Path(folder)) as server,
        ):
            _ping(redis, server.url)
        yield ok("redis", "the embedded server starts and answers, on this machine alone")
    except EntenteError as error:
        yield fault("redis", str(error))


def _openness(url: str, which: str = "") -> Finding:
    parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
    encrypted = parts.scheme == "rediss"
    how = "encrypted" if encrypted else "not encrypted; rediss:// is, if its network is not yours alone"
    if parts.password is None and "password" not in query and "ssl_certfile" not in query:
        return warn(
            "redis",
            f"the external server{which} accepts every client that reaches it ({how}): give it a password, which "
            f"comes from {PASSWORD_VARIABLE}",
        )
    return ok("redis", f"the external server{which} answers ({how})")


def _ping(redis: RedisSettings, url: str) -> None:
    with closing(redis_buffer(redis, url, "doctor")) as buffer:
        buffer.stored_ids(["doctor/0"])
