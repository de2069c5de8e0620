"""Starts the Ray of a run that uses one machine, and ends all its processes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from cluster.errors import LateError, RunError
from cluster.runtime.memory import OBJECT_STORE_BYTES
from cluster.runtime.orphan_reaper import guarded
from cluster.runtime.ray_calls import first_line, shut_down_ray
from cluster.runtime.start_watch import start_watched
from cluster.runtime.stop_signals import shielded, stop_at_signals
from grpo_core.checkpoints.atomic_write import write_atomically

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
START_ATTEMPTS = 8  # Ray gives up after 30 s, which a busy machine may need for starting its processes
AT_ONCE_S = 10.0  # an attempt that fails sooner did not fail because the machine is busy
ATTEMPTS_AT_ONCE = 3  # such ones; another process may have taken a port
# Ray's name for a switch between the machine's own address and loopback; its processes then listen on loopback alone.
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
# Ray's workers have a niceness of 15, with which another busy program leaves them a thirtieth of its share of a core.
NICENESS_VARIABLE = "RAY_worker_niceness"
TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_ADVICE = f"give the same token to all of Ray, in {TOKEN_VARIABLE} or the file that {TOKEN_FILE_VARIABLE} names"


def prepare_local_ray() -> None:
    """Set what Ray reads when it is imported: a token, loopback alone, and workers with the priority of other programs.

    Raises RunError if other users can read or replace the token.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault(LOOPBACK_VARIABLE, "0")
    os.environ.setdefault(NICENESS_VARIABLE, "0")
    if os.environ["RAY_AUTH_MODE"] == "token" and TOKEN_VARIABLE not in os.environ:
        keep_token_private(Path(os.environ.get(TOKEN_FILE_VARIABLE) or Path.home() / ".ray" / "auth_token"))


def keep_token_private(path: Path) -> None:
    """Let only this user read Ray's token; it is made if there is none (Ray itself makes one that all can read).

    One that the system's administrator mounted stays as it is. Raises RunError if the file belongs to another user or
    cannot be protected, StorageError if it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size == 0:  # a full disk left it
            path.unlink()
        if not path.exists():
            _make_token(path)
        state = path.stat()
        if not is_trusted(state.st_uid):
            raise RunError(
                f"Ray's token {path} belongs to another user, who could control this run: remove it, or name another "
                f"file in {TOKEN_FILE_VARIABLE}"
            )
        if state.st_uid == os.getuid() and stat.S_IMODE(state.st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        if error.errno == errno.EROFS and path.exists() and path.stat().st_uid == 0:
            return  # a mounted secret
        raise RunError(
            f"cannot protect Ray's token {path}: {error.strerror}; name another file in {TOKEN_FILE_VARIABLE}"
        ) from error


def is_trusted(owner: int) -> bool:
    """Whether the owner of a file, a user id, is this user or the system's administrator, who mounts secrets."""
    return owner in (0, os.getuid())


def _make_token(path: Path) -> None:
    """Make the file in one step, whole; of two runs that do so at once, both use the first one's."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_atomically(draft, secrets.token_hex(32).encode(), mode=0o600)
    try:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    except OSError:  # a file system without hard links
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def local_ray(cpus: int, notice: Callable[[str], None]) -> Iterator[None]:
    """Start a Ray with at least ``cpus`` CPUs on this machine; it ends with the block.

    On a busy machine it may need several attempts, which ``notice`` is told. Its processes do not see the signals that
    ask the run to stop. Raises LateError if Ray does not start, RunError if it cannot.
    """
    with guarded() as end_orphans:
        try:
            _start(max(cpus, os.cpu_count() or 1), notice)
            yield
        finally:
            # Ray's processes do not answer its SIGTERM, so without the reaper it would wait for each of them.
            end_orphans()
            shut_down_ray()


def _start(cpus: int, notice: Callable[[str], None]) -> None:
    import ray

    at_once = 0
    for attempt in range(1, START_ATTEMPTS + 1):
        others, begun = set(psutil.Process().children()), time.monotonic()
        try:
            with shielded(), start_watched():
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    object_store_memory=OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                )
                stop_at_signals()  # Ray put a handler in place that ends the process without saving
                return
        except Exception as error:  # Ray raises nothing more specific if its processes do not start
            reason, took_s = first_line(error), time.monotonic() - begun
            end_started(others)
            at_once += took_s < AT_ONCE_S
            if advice := _advice(error):
                raise RunError(f"Ray cannot start on this machine ({reason}): {advice}") from error
            if at_once == ATTEMPTS_AT_ONCE:
                raise RunError(f"Ray cannot start on this machine ({reason})") from error
            if attempt == START_ATTEMPTS:
                raise LateError(
                    f"Ray did not start on this machine in {attempt} attempts ({reason}); is it overloaded, or out of "
                    "memory?"
                ) from error
            why = f"did not start ({reason})" if took_s < AT_ONCE_S else "did not start within its time"
            busy = "" if took_s < AT_ONCE_S else " (is the machine busy?)"
            notice(f"Ray {why}; attempt {attempt + 1} of {START_ATTEMPTS}{busy}")


def _advice(error: Exception) -> str | None:
    """What to do about an error with which further attempts would end as well; None if they may succeed."""
    from ray.exceptions import AuthenticationError

    if isinstance(error, AuthenticationError):
        return TOKEN_ADVICE
    if "AF_UNIX path length" in str(error):
        return "its folder has too long a name; name a shorter one in RAY_TMPDIR"
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return "free space there or make it writable, or name another folder in RAY_TMPDIR"
    return None


def end_started(others: set[psutil.Process]) -> None:
    """End what a failed start left behind: all children of this process but ``others``.

    Ray forgets processes that it did not get to know in time.
    """
    started = [child for child in psutil.Process().children() if child not in others]
    family = [process for child in started for process in (child, *_descendants(child))]
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=5.0)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []
