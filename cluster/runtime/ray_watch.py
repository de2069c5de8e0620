"""Notices that one of Ray's services is gone: its control service (GCS), or the node manager (raylet) of this machine.

Without the first, Ray's own calls hang for a minute and then end the process. Actors still answer for that time, so a
run that notices early can save, and start again or end with a message. Without the second, the actors of this machine
end with it, and as soon as the control service has noticed, some ten seconds later, Ray may end this process.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

from cluster.errors import ControlServiceLostError, LostError

CHECK_EVERY_S = 0.5
CONNECT_TIMEOUT_S = 2.0
LOCAL_GRACE_S = 1.5  # of refusals; a process on this machine refuses connections only once it has ended
REMOTE_GRACE_S = 5.0  # of refusals; another process may take the place of the one that ended
SILENT_GRACE_S = 30.0  # without any answer: a network, or a machine with much to do, may fail for a while
HANGING_S = 10.0  # after the loss: the main thread does not look, so it hangs in one of Ray's calls
NOT_SAVED = "go on with --resume from the last checkpoint, which is intact"
# This process cannot even ask.
_OUR_OWN = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)


class Answer(Enum):
    """What an address answers to an attempt to connect."""

    ACCEPTED = auto()
    REFUSED = auto()
    NONE = auto()  # within the time limit


def end_process(message: str) -> None:
    """End a process whose main thread hangs in Ray, with exit code 2 and this line.

    Its reaper and its replay server's supervisor end the other processes.
    """
    try:
        logging.shutdown()
        print(f"\nerror: {message}", file=sys.stderr, flush=True)
    finally:  # also if the line has no reader, or the disk is full
        os._exit(2)


class ServiceWatch:
    """Connects to a service at intervals, in a thread."""

    def __init__(
        self,
        name: str,
        address: str,
        grace_s: float,
        error: type[LostError] = LostError,
        connect: Callable[[str], Answer] | None = None,
        end_process: Callable[[str], None] | None = end_process,
    ) -> None:
        """Begin to watch the service at ``address`` (host:port), which may refuse connections for ``grace_s``.

        It may give no answer for ``SILENT_GRACE_S``. ``name`` and ``error`` are how users and callers hear of its loss.
        ``connect`` tries an address once. ``end_process`` is called with a message if the loss is not noticed within
        ``HANGING_S``; by default it ends this process with exit code 2. None: nothing is done then.
        """
        self._name = name
        self._address = address
        self._error = error
        self._grace_s = grace_s
        self._connect = connect or answer_of
        self._end_process = end_process
        # By time.monotonic(), None while the service accepts:
        self._gone_since: float | None = None  # the first attempt that failed
        self._refused_since: float | None = None  # the first of the last attempts, if all of these were refused
        self._lost_since: float | None = None
        self._noticed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="entente-ray-watch", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the service has accepted no connection for longer than the grace time."""
        now = time.monotonic()
        refused_s = -1.0 if self._refused_since is None else now - self._refused_since
        gone_s = -1.0 if self._gone_since is None else now - self._gone_since
        return refused_s >= self._grace_s or gone_s >= max(self._grace_s, SILENT_GRACE_S)

    def check(self) -> None:
        """Raise the watch's LostError if the service is lost."""
        if self.lost:
            self._noticed = True
            raise self._error(self._message())

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join(CONNECT_TIMEOUT_S + CHECK_EVERY_S)

    def _watch(self) -> None:
        while not self._stopped.wait(CHECK_EVERY_S):
            answer, now = self._connect(self._address), time.monotonic()
            self._gone_since = None if answer is Answer.ACCEPTED else self._gone_since or now
            self._refused_since = self._refused_since or now if answer is Answer.REFUSED else None
            self._lost_since = self._lost_since or now if self.lost else None
            overdue = self._lost_since is not None and now - self._lost_since >= HANGING_S
            if overdue and not self._noticed and self._end_process is not None:
                self._end_process(f"{self._message()}, and Ray does not answer; {NOT_SAVED}")
                return

    def _message(self) -> str:
        return f"{self._name} at {self._address} is gone"


def answer_of(address: str) -> Answer:
    """What ``host:port`` answers within ``CONNECT_TIMEOUT_S``; accepted also if this process cannot ask."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return Answer.REFUSED
    except OSError as error:
        return Answer.ACCEPTED if error.errno in _OUR_OWN else Answer.NONE
    return Answer.ACCEPTED


# Of the Ray that this process is connected to:
_control_service: ServiceWatch | None = None
_node_manager: ServiceWatch | None = None


@contextmanager
def ray_watched(*, local: bool) -> Iterator[None]:
    """Watch the services of the connected Ray inside the block, for ``check_ray``.

    A connection through Ray's client server (``ray://``) does not tell where they are, so nothing is watched.
    """
    global _control_service, _node_manager
    import ray
    from ray.util.client import ray as client

    if client.is_connected():
        yield
        return
    context = ray.get_runtime_context()
    here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    manager = f"{here['NodeManagerAddress']}:{here['NodeManagerPort']}"
    grace_s = LOCAL_GRACE_S if local else REMOTE_GRACE_S
    _control_service = ServiceWatch(
        "Ray's control service (GCS)", context.gcs_address, grace_s, ControlServiceLostError
    )
    # The run may hear of its loss from an actor first, and its trackers then have more than HANGING_S to finish.
    _node_manager = ServiceWatch("Ray's node manager (raylet)", manager, LOCAL_GRACE_S, end_process=None)
    try:
        yield
    finally:
        _control_service.close()
        _node_manager.close()
        _control_service = _node_manager = None


def check_ray() -> None:
    """Raise ControlServiceLostError if the control service is lost, LostError if this machine's node manager is."""
    for watch in (_control_service, _node_manager):
        if watch is not None:
            watch.check()


def control_service_lost() -> bool:
    """Whether the control service that this process watches is lost, so that Ray's calls to it would hang."""
    return _control_service is not None and _control_service.lost
