"""The lock that allows one learner per run; a dead owner loses it."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from functools import partial
from pathlib import Path

import psutil
import redis

from services.replay.buffer import ReplayError
from services.replay.processes import same_process
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.lua_scripts import ACQUIRE, RELEASE, RENEW

LOCK_TTL_S = 30.0
_WATCH_S = 0.2
_held_here: set[str] = set()  # owners that this process has not released


class LearnerLock:
    """A key that names the learner; a thread renews it every ``LOCK_TTL_S / 3`` while this object holds it.

    A holder on this machine is replaced at once if its process is dead. A holder on another machine is watched: it is
    alive if its lock is renewed, and dead when the lock expires. The store checks in each atomic step of a learner that
    ``owner`` is the key's value, so that a holder that was suspended and replaced does no harm.
    """

    def __init__(self, connection: Connection, key: str, run_id: str) -> None:
        self.key = key
        self._run_id = run_id
        self._connection = connection
        process = psutil.Process()
        here = {"host": socket.gethostname(), "machine": _machine(), "pid": process.pid}
        self.owner = json.dumps({**here, "started": process.create_time(), "token": uuid.uuid4().hex})
        self._acquire = connection.client.register_script(ACQUIRE)
        self._renew = connection.client.register_script(RENEW)
        self._release = connection.client.register_script(RELEASE)
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lock, after up to ``LOCK_TTL_S`` if another holds it; raises ``ReplayError`` if it is alive."""
        give_up_s = time.monotonic() + LOCK_TTL_S + 5
        replaceable, last_left_ms = "", -1
        while True:
            take = partial(self._acquire, keys=[self.key], args=[self.owner, int(LOCK_TTL_S * 1000), replaceable])
            reply = self._connection.call("take the learner's lock", take)
            if not reply:
                break
            holder, left_ms = reply[0].decode(), int(reply[1])
            here = _facts(holder).get("machine") == _machine()
            if here and _is_alive(holder):
                raise self.conflict(holder)
            if here:
                replaceable = holder
                continue
            if 0 <= last_left_ms < left_ms or time.monotonic() > give_up_s:
                raise self.conflict(holder)
            last_left_ms = left_ms
            time.sleep(_WATCH_S)
        _held_here.add(self.owner)
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew_repeatedly, name="entente-learner-lock", daemon=True)
            self._renewer.start()

    def conflict(self, holder: str) -> ReplayError:
        """Make the error of a learner that finds another ``holder``."""
        facts = _facts(holder)
        return ReplayError(
            f"run {self._run_id!r} already has a learner: process {facts.get('pid', '?')} on "
            f"{facts.get('host', '?')}. Stop it, or give this run another name; a learner that died is replaced "
            f"within {LOCK_TTL_S:g} s"
        )

    def release(self) -> None:
        """Free the lock for the next learner at once."""
        self._released.set()
        _held_here.discard(self.owner)
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


def _facts(holder: str) -> dict[str, str | int | float]:
    try:
        facts = json.loads(holder)
    except json.JSONDecodeError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _is_alive(holder: str) -> bool:
    facts = _facts(holder)
    if facts["pid"] == os.getpid():
        return holder in _held_here
    try:
        process = psutil.Process(int(facts["pid"]))
        return same_process(process, float(facts["started"])) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
