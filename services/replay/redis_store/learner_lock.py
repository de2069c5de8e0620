"""The lock that allows one learner per run; a dead owner loses it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from functools import partial
from pathlib import Path

import msgspec
import psutil
import redis

from grpo_core.errors import one_line
from services.replay.buffer import ReplayError
from services.replay.processes import same_process
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.lua_scripts import ACQUIRE, RELEASE, RENEW
from services.replay.redis_store.replies import LockHolder, holder_of

LOCK_TTL_S = 30.0
_WATCH_S = 0.2
_held_here: set[str] = set()  # tokens of the locks that this process has not released
_log = logging.getLogger(__name__)


class LearnerLock:
    """A key that names the learner; a thread renews it every ``LOCK_TTL_S / 3`` while this object holds it.

    A holder on this machine is replaced at once if its process is dead. A holder on another machine is watched: it is
    alive if its lock is renewed, and dead when the lock expires. A value that no learner wrote is replaced at once. The
    store checks in each atomic step of a learner that ``owner`` is the key's value, so that a holder that was suspended
    and replaced does no harm.
    """

    def __init__(self, connection: Connection, key: str, run_id: str) -> None:
        self.key = key
        self._run_id = run_id
        self._connection = connection
        process = psutil.Process()
        self._token = uuid.uuid4().hex
        holder = LockHolder(socket.gethostname(), _machine(), process.pid, process.create_time(), self._token)
        self.owner = msgspec.json.encode(holder).decode()  # the key's value while this object holds the lock
        self._acquire = connection.client.register_script(ACQUIRE)
        self._renew = connection.client.register_script(RENEW)
        self._release = connection.client.register_script(RELEASE)
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lock, after up to ``LOCK_TTL_S`` if another holds it; raises ``ReplayError`` if it is alive."""
        give_up_s = time.monotonic() + LOCK_TTL_S + 5 - self._connection.away_s
        replaceable, last_left_ms = "", -1
        while True:
            take = partial(self._acquire, keys=[self.key], args=[self.owner, int(LOCK_TTL_S * 1000), replaceable])
            reply = self._connection.call("take the learner's lock", take)
            if not reply:
                break
            value, digest, left_ms = reply[0], reply[1].decode(), int(reply[2])
            holder = holder_of(value)
            if holder is None:
                _log.warning("%s holds %s, which no learner wrote: it is replaced", self.key, one_line(value, 100))
            here = holder is None or holder.machine == _machine()
            renewed = 0 <= last_left_ms < left_ms
            late = time.monotonic() - self._connection.away_s > give_up_s
            if holder is not None and (_is_alive(holder) if here else renewed or late):
                raise self.conflict(holder)
            if late:
                raise ReplayError(f"something else than a learner writes {self.key} again and again: find and stop it")
            if here:
                replaceable = digest
                continue
            last_left_ms = left_ms
            time.sleep(_WATCH_S)
        _held_here.add(self._token)
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew_repeatedly, name="entente-learner-lock", daemon=True)
            self._renewer.start()

    def conflict(self, holder: LockHolder) -> ReplayError:
        """Make the error of a learner that finds another ``holder``."""
        return ReplayError(
            f"run {self._run_id!r} already has a learner: process {holder.pid} on {one_line(holder.host, 100)}. Stop "
            f"it, or give this run another name; a learner that died is replaced within {LOCK_TTL_S:g} s"
        )

    def release(self) -> None:
        """Free the lock for the next learner at once."""
        self._released.set()
        _held_here.discard(self._token)
        if self._renewer is None:
            return
        self._renewer.join(timeout=LOCK_TTL_S)
        self._renewer = None
        self._connection.call("release the learner's lock", lambda: self._release(keys=[self.key], args=[self.owner]))

    def _renew_repeatedly(self) -> None:
        while not self._released.wait(LOCK_TTL_S / 3):
            try:
                self._renew(keys=[self.key], args=[self.owner, int(LOCK_TTL_S * 1000)])
            except redis.RedisError:
                continue  # the learner's next call reports the server's error


def _machine() -> str:
    """Identify the scope of process ids: this boot of this kernel, in this process namespace."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and namespace.exists():
        return f"{boot.read_text().strip()}/{os.readlink(namespace)}"
    return f"{socket.gethostname()}/{int(psutil.boot_time())}"


def _is_alive(holder: LockHolder) -> bool:
    if holder.pid == os.getpid():
        return holder.token in _held_here
    try:
        process = psutil.Process(holder.pid)
        return same_process(process, holder.started) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
