"""The machine a run stands on: memory check, Ray, and the Redis-protocol server."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn

from cluster.configs.schema import Config
from cluster.errors import LateError, RunError
from cluster.runtime.memory import OBJECT_STORE_BYTES
from cluster.runtime.orphan_reaper import guarded
from cluster.runtime.placement import cpus_asked

CONNECT_TIMEOUT_S = 5.0


@contextmanager
def ray_cluster(config: Config) -> Iterator[None]:
    """A local Ray, or the cluster that ``run.ray_address`` names; a local one ends with the block.

    Raises:
        LateError: the local Ray does not start.
        RunError: the cluster does not answer, or its machines could not all reach the run's replay server.
    """
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # What an actor raised after its run was lost is nobody's answer any more, and the run has said why in one line.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    quiet_authentication()
    with guarded() if config.run.ray_address is None else nullcontext():
        try:
            if config.run.ray_address is None:
                _start_local(config)
            else:
                _attach(config.run.ray_address, embedded_replay=config.redis.url is None)
        except SystemExit:  # what Ray makes of SIGTERM while it starts
            raise KeyboardInterrupt from None
        stop_at_sigterm()  # Ray has put its own handler over it, which would end the process without saving
        try:
            yield
        finally:
            ray.shutdown()


def quiet_authentication() -> None:
    """Ray turns token authentication on by itself and says so at every start; that is what we want, quietly."""
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)


def _start_local(config: Config) -> None:
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=max(cpus_asked(config), os.cpu_count() or 1),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # Ray raises nothing more special where its processes do not come up
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LateError(f"Ray did not start on this machine ({reason}); is it overloaded, or out of memory?") from error


def _attach(address: str, *, embedded_replay: bool) -> None:
    import ray

    check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunError(
            f"no Ray cluster at {address} ({reason}); start one, or leave run.ray_address unset for a local one"
        ) from error
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if embedded_replay and len(machines) > 1:
        raise RunError(
            f"the Ray cluster at {address} has {len(machines)} machines, and a replay server started here would listen "
            "on this one alone: set redis.url to a server that all of them reach"
        )


def stop_at_sigterm() -> None:
    """Let SIGTERM, which job managers send, stop this process like Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def check_reachable(address: str) -> None:
    """Look whether somebody listens at a cluster's address; Ray itself waits for minutes where nobody does.

    Raises:
        RunError: nobody does, or it is no address.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        if not colon or not port.isdigit():
            raise OSError("it is not host:port")
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise RunError(
            f"no Ray cluster at {address} ({error}); start one, or leave run.ray_address unset for a local one"
        ) from None
