"""One learner a run: a lock with an owner, which a dead owner loses."""

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
from services.replay.redis_store.connection import Connection
from services.replay.redis_store.lua_scripts import ACQUIRE, RELEASE, RENEW
from services.replay.server.processes import same_process

LOCK_TTL_S = 30.0
_WATCH_S = 0.2
_held_here: set[str] = set()  # owners that this process has not released


class LearnerLock:
    """A key that names the learner, renewed by a thread every ``LOCK_TTL_S / 3`` while this object holds it.

    A holder on this machine is replaced at once when its process is dead. One elsewhere is watched: it lives if
    its lock is renewed, and is dead when the lock expires. What a learner does in the store is refused there,
    atomically, when ``owner`` is not the key's value, so a holder that was suspended and replaced does no harm.
    """

    def __init__(self, connection: Connection, key: str, run_id: str) -> None:
        self.key = key
        self._run_id = run_id
        self._connection = connection
        process = psutil.Process()
        self.owner = json.dumps(
            {
                "host": socket.gethostname(),
                "machine": _machine(),
                "pid": process.pid,
                "started": process.create_time(),
                "token": uuid.uuid4().hex,
            }
        )
        self._acquire = connection.client.register_script(ACQUIRE)
        self._renew = connection.client.register_script(RENEW)
        self._release = connection.client.register_script(RELEASE)
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self) -> None:
        """Hold the run; waits for at most ``LOCK_TTL_S`` when the last holder's fate is unknown.

        Raises:
            ReplayError: another learner lives; says where.
        """
        give_up_s = time.monotonic() + LOCK_TTL_S + 5
        replaceable, last_left_ms = "", -1
        while True:
            arguments: list[str | int] = [self.owner, int(LOCK_TTL_S * 1000), replaceable]
            reply = self._connection.call(
                "take the learner's lock", partial(self._acquire, keys=[self.key], args=arguments)
            )
            if not reply:
                break
            holder, left_ms = reply[0].decode(), int(reply[1])
            here = _is_here(holder)
            if here and _is_alive(holder):
                raise self.refused(holder)
            if here:
                replaceable = holder
                continue
            if 0 <= last_left_ms < left_ms or time.monotonic() > give_up_s:
                raise self.refused(holder)
            last_left_ms = left_ms
            time.sleep(_WATCH_S)
        _held_here.add(self.owner)
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._keep, name="entente-learner-lock", daemon=True)
            self._renewer.start()

    def refused(self, holder: str) -> ReplayError:
        """What to tell a learner that finds ``holder`` in its place."""
        facts = _facts(holder)
        return ReplayError(
            f"run {self._run_id!r} already has a learner: process {facts.get('pid', '?')} on "
            f"{facts.get('host', '?')}. Stop it, or give this run another name; a learner that died is replaced "
            f"within {LOCK_TTL_S:g} s"
        )

    def release(self) -> None:
        """Let the next learner in at once."""
        self._released.set()
        _held_here.discard(self.owner)
        if self._renewer is None:
            return
        self._renewer.join(timeout=LOCK_TTL_S)
        self._renewer = None
        self._connection.call("release the learner's lock", lambda: self._release(keys=[self.key], args=[self.owner]))

    def _keep(self) -> None:
        while not self._released.wait(LOCK_TTL_S / 3):
            try:
                self._renew(keys=[self.key], args=[self.owner, int(LOCK_TTL_S * 1000)])
            except redis.RedisError:
                continue  # the learner's own next call reports what is wrong with the server


def _machine() -> str:
    """Where process ids mean the same processes: this boot of this kernel, in this process namespace."""
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


def _is_here(holder: str) -> bool:
    return bool(_facts(holder).get("machine") == _machine())


def _is_alive(holder: str) -> bool:
    facts = _facts(holder)
    if facts["pid"] == os.getpid():
        return holder in _held_here
    try:
        process = psutil.Process(int(facts["pid"]))
        return same_process(process, float(facts["started"])) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
