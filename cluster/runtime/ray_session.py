"""A run's Ray session: a local Ray that it starts, or a cluster that it attaches to."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from cluster.errors import LateError, RunError
from cluster.runtime.local_ray import TOKEN_ADVICE, local_ray, prepare_local_ray
from cluster.runtime.ray_calls import first_line, shut_down_ray
from cluster.runtime.ray_watch import ray_watched
from cluster.runtime.stop_signals import shielded, stop_at_signals

CONNECT_TIMEOUT_S = 5.0


@contextmanager
def ray_cluster(
    address: str | None, cpus: int, *, embedded_replay: bool, notice: Callable[[str], None] = print
) -> Iterator[None]:
    """Start a local Ray with at least ``cpus`` CPUs, which ends with the block, or attach to the one at ``address``.

    ``embedded_replay``: whether the replay server runs on this machine. ``notice`` is told why the start takes longer.

    Raises LateError if the local Ray does not start, or the cluster does not answer; RunError if the cluster's machines
    could not all reach the run's replay server.
    """
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # An error that an actor raises after its run was lost would hide the run's own message.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if address is None:
        prepare_local_ray()
    quiet_authentication()
    with ExitStack() as stack:
        try:
            if address is None:
                stack.enter_context(local_ray(cpus, notice))
            else:
                stack.enter_context(_attached(address, embedded_replay=embedded_replay))
        except SystemExit:  # Ray raises it on SIGTERM while it starts
            raise KeyboardInterrupt from None
        stack.enter_context(ray_watched(local=address is None))
        yield


def quiet_authentication() -> None:
    """Silence the log line about token authentication that Ray writes at every start."""
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)


@contextmanager
def _attached(address: str, *, embedded_replay: bool) -> Iterator[None]:
    import ray
    from ray.exceptions import AuthenticationError

    check_reachable(address)
    try:
        with shielded():
            ray.init(address=address, log_to_driver=False)
            stop_at_signals()  # Ray put a handler in place that ends the process without saving
    except AuthenticationError as error:
        raise RunError(
            f"the Ray cluster at {address} refused this run ({first_line(error)}): {TOKEN_ADVICE}"
        ) from error
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, first_line(error)) from error
    try:
        machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        if embedded_replay and len(machines) > 1:
            raise RunError(
                f"the Ray cluster at {address} has {len(machines)} machines, and a replay server started here would "
                "listen on this one alone: set redis.url to a server that all of them reach (or redis.urls)"
            )
        yield
    finally:
        shut_down_ray()


def check_reachable(address: str) -> None:
    """Raise LateError if a cluster's address does not accept connections; Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        if not colon or not port.isdigit():
            raise OSError("it is not host:port")
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str, reason: str) -> LateError:
    return LateError(
        f"no Ray cluster at {address} ({reason}); start one, or leave run.ray_address unset for a local one"
    )
