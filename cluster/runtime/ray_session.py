"""A run's Ray session: a local Ray that it starts, or a cluster that it attaches to."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from cluster.errors import LateError, RunError
from cluster.runtime.memory import OBJECT_STORE_BYTES
from cluster.runtime.orphan_reaper import guarded

CONNECT_TIMEOUT_S = 5.0


@contextmanager
def ray_cluster(address: str | None, cpus: int, *, embedded_replay: bool) -> Iterator[None]:
    """Start a local Ray with at least ``cpus`` CPUs, which ends with the block, or attach to the one at ``address``.

    ``embedded_replay``: whether the replay server runs on this machine.

    Raises LateError if the local Ray does not start; RunError if the cluster does not answer, or its machines could not
    all reach the run's replay server.
    """
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # An error that an actor raises after its run was lost would hide the run's own message.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    quiet_authentication()
    with guarded() if address is None else nullcontext():
        try:
            if address is None:
                _start_local(cpus)
            else:
                _attach(address, embedded_replay=embedded_replay)
        except SystemExit:  # Ray raises it on SIGTERM while it starts
            raise KeyboardInterrupt from None
        stop_at_sigterm()  # Ray replaced the handler by one that would end the process without saving
        try:
            yield
        finally:
            ray.shutdown()


def quiet_authentication() -> None:
    """Silence the log line about token authentication that Ray writes at every start."""
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)


def _start_local(cpus: int) -> None:
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=max(cpus, os.cpu_count() or 1),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # Ray raises nothing more specific if its processes do not start
        raise LateError(
            f"Ray did not start on this machine ({_first_line(error)}); is it overloaded, or out of memory?"
        ) from error


def _attach(address: str, *, embedded_replay: bool) -> None:
    import ray

    check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, _first_line(error)) from error
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if embedded_replay and len(machines) > 1:
        raise RunError(
            f"the Ray cluster at {address} has {len(machines)} machines, and a replay server started here would listen "
            "on this one alone: set redis.url to a server that all of them reach"
        )


def stop_at_sigterm() -> None:
    """Make SIGTERM, which job managers send, stop this process like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def check_reachable(address: str) -> None:
    """Raise RunError if a cluster's address does not accept connections; Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        if not colon or not port.isdigit():
            raise OSError("it is not host:port")
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str, reason: str) -> RunError:
    return RunError(
        f"no Ray cluster at {address} ({reason}); start one, or leave run.ray_address unset for a local one"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
