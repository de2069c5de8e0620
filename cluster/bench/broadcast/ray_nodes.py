"""A real Ray of several nodes on one machine, each with its own object store and an actor that takes weights."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from cluster.broadcast.delivery import Delivery
from cluster.errors import LateError
from cluster.runtime.actor_env import started_with
from cluster.runtime.local_ray import START_ATTEMPTS, end_started, prepare_local_ray
from cluster.runtime.orphan_reaper import guarded
from cluster.runtime.ray_calls import first_line, shut_down_ray, wait_for_all
from cluster.runtime.ray_session import quiet_authentication
from services.weights.payload import Payload, verify

if TYPE_CHECKING:
    from cluster.broadcast.broadcaster import Broadcaster  # it imports Ray, which first needs its settings

START_TIMEOUT_S = 300  # for all nodes, and for all actors
AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")


class WeightsTaker:
    """Replaces a rollout actor: it fetches weights as one does, and checks them."""

    async def take(self, weights: Payload | Delivery) -> str:
        """Return the SHA-256 of the weights. Raises WeightsError if they are damaged."""
        payload = await weights.payload() if isinstance(weights, Delivery) else weights
        verify(payload)
        return payload.checksum

    async def node(self) -> str:
        """Return Ray's id of this actor's node."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found


@contextmanager
def ray_nodes(count: int, store_bytes: int) -> Iterator[Any]:
    """Start Ray nodes, and connect this process to the first one; they end with the block.

    Yields Ray's ``Cluster``, whose ``worker_nodes`` are the other ``count - 1``.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    prepare_local_ray()
    quiet_authentication()
    import ray
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-")  # short, because names of Unix sockets are limited
    # In that folder a cluster notes its address, which other programs would connect to.
    with guarded() as end_orphans, started_with({"RAY_TMPDIR": folder}):
        nodes = Cluster(shutdown_at_exit=True)
        try:
            for _ in range(count):
                _add_node(nodes, store_bytes)
            ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
            _wait_for_nodes(count)
            yield nodes
        finally:
            shut_down_ray()
            nodes.shutdown()
            end_orphans()  # a node that did not start in time
            shutil.rmtree(folder, ignore_errors=True)


def _add_node(nodes: Any, store_bytes: int) -> None:
    for attempt in range(1, START_ATTEMPTS + 1):
        others = set(psutil.Process().children())
        try:
            # A node that knows its agents' ports does not wait for them.
            ports = dict(zip(AGENT_PORTS, _free_ports(len(AGENT_PORTS)), strict=True))
            nodes.add_node(num_cpus=1, object_store_memory=store_bytes, include_dashboard=False, wait=False, **ports)
            return
        except Exception as error:  # Ray raises nothing more specific
            end_started(others)
            if attempt == START_ATTEMPTS:
                raise LateError(f"a Ray node did not start in {attempt} attempts ({first_line(error)})") from error


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _wait_for_nodes(count: int) -> None:
    import ray

    deadline = time.monotonic() + START_TIMEOUT_S
    while (alive := sum(node["Alive"] for node in ray.nodes())) < count:
        if time.monotonic() > deadline:
            raise LateError(f"{alive} of {count} Ray nodes started within {START_TIMEOUT_S} s")
        time.sleep(0.1)


def takers_on(nodes: Sequence[str]) -> dict[str, Any]:
    """Start an actor on each node. Raises LateError if they do not start in time."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    takers = {}
    for node in nodes:
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        takers[node] = ray.remote(WeightsTaker).options(num_cpus=0, scheduling_strategy=place).remote()
    _, waiting = wait_for_all([taker.node.remote() for taker in takers.values()], START_TIMEOUT_S)
    if waiting:
        raise LateError(f"{len(waiting)} of {len(nodes)} actors did not start within {START_TIMEOUT_S} s")
    return takers


def other_nodes() -> list[str]:
    """Ray's ids of all live nodes but this process's own."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != own)


def wait_for_relays(broadcaster: Broadcaster, weights: Any, nodes: Sequence[str]) -> None:
    """Wait until all nodes can take part in a broadcast. Raises LateError if that takes too long."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not broadcaster.ready(weights, nodes):
        if time.monotonic() > deadline:
            raise LateError(f"the relays of a broadcast did not start within {START_TIMEOUT_S} s")
        time.sleep(0.1)
