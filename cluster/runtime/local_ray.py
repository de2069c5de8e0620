"""Starts the Ray of a run that uses one machine, and ends all its processes."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from cluster.errors import LateError, RunError
from cluster.runtime.memory import OBJECT_STORE_BYTES
from cluster.runtime.orphan_reaper import guarded
from cluster.runtime.ray_calls import first_line
from cluster.runtime.stop_signals import shielded, stop_at_signals

START_ATTEMPTS = 8  # Ray gives up after 30 s, which a busy machine may need for starting its processes
# Ray's name for a switch between the machine's own address and loopback; its processes then listen on loopback alone.
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


def prepare_local_ray() -> None:
    """Set what Ray reads when it is imported: its clients need a token, and it listens on loopback alone.

    Raises RunError if other users can read or replace the token.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault(LOOPBACK_VARIABLE, "0")
    if os.environ["RAY_AUTH_MODE"] == "token" and TOKEN_VARIABLE not in os.environ:
        keep_token_private(Path(os.environ.get(TOKEN_FILE_VARIABLE) or Path.home() / ".ray" / "auth_token"))


def keep_token_private(path: Path) -> None:
    """Let only this user read Ray's token; it is made if there is none (Ray itself makes one that all can read).

    Raises RunError if the file belongs to somebody else or cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file,
        ):
            file.write(secrets.token_hex(32))
        state = path.stat()
        if state.st_uid != os.getuid():
            raise RunError(
                f"Ray's token {path} belongs to another user, who could control this run: remove it, or name another "
                f"file in {TOKEN_FILE_VARIABLE}"
            )
        if stat.S_IMODE(state.st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise RunError(f"cannot protect Ray's token {path}: {error.strerror}") from error


@contextmanager
def local_ray(cpus: int, notice: Callable[[str], None]) -> Iterator[None]:
    """Start a Ray with at least ``cpus`` CPUs on this machine; it ends with the block.

    On a busy machine it may need several attempts, which ``notice`` is told. Its processes do not see the signals that
    ask the run to stop. Raises LateError if Ray does not start, RunError as ``prepare_local_ray`` does.
    """
    import ray

    with guarded() as end_orphans:
        try:
            _start(max(cpus, os.cpu_count() or 1), notice)
            yield
        finally:
            # Ray's processes do not answer its SIGTERM, so without the reaper it would wait for each of them.
            end_orphans()
            ray.shutdown()


def _start(cpus: int, notice: Callable[[str], None]) -> None:
    import ray

    for attempt in range(1, START_ATTEMPTS + 1):
        others = set(psutil.Process().children())
        try:
            with shielded():
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
            reason = first_line(error)
            _end_started(others)
            if attempt == START_ATTEMPTS:
                raise LateError(
                    f"Ray did not start on this machine in {attempt} attempts ({reason}); is it overloaded, or out of "
                    "memory?"
                ) from error
            notice(
                f"Ray did not start within its time; attempt {attempt + 1} of {START_ATTEMPTS} (is the machine busy?)"
            )


def _end_started(others: set[psutil.Process]) -> None:
    """End what a failed start left behind: Ray forgets processes that it did not get to know in time."""
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
