"""The driver's side of broadcasts: it keeps a relay on each node, and tells them who reads from whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.broadcast.node import Received
from cluster.broadcast.plan import CHUNK_BYTES, FAN_OUT, ROOT, broadcast_tree, reading_order, time_limits
from cluster.broadcast.relay import Relay, RelaySource
from cluster.runtime.actor_env import actor_environment
from cluster.runtime.ended_processes import Ref
from cluster.runtime.ray_calls import cause_of_death
from grpo_core.errors import one_line

NAME_LENGTH = 8  # of a node's id, in messages


def start_relay(node: str, limit_s: float) -> Any:
    """The handle of a new relay on a node; it takes no CPU away from actors."""
    place = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": place, "runtime_env": actor_environment(1)}
    return ray.remote(Relay).options(**options).remote(limit_s)


@dataclass(slots=True)
class _RelayState:
    """One node's relay as the driver knows it."""

    actor: Any
    started: Ref | None  # resolves when it runs; None: it does
    since: float  # time.monotonic() of its start or of the broadcast it receives
    receives: Ref | None = None  # resolves to ``Received``; None: it has answered


class Broadcaster:
    """Sends weights to nodes down a tree. No call waits: a node that is not ready for that fetches as it always did."""

    def __init__(self, limit_s: float, start: Callable[[str, float], Any] = start_relay) -> None:
        """``limit_s``: seconds in which a node must have all chunks; ``start`` makes the relay of a node."""
        self._limit_s = limit_s
        self._start = start
        self._relays: dict[str, _RelayState] = {}  # by node
        self._seconds: dict[str, float] = {}  # of each node's last broadcast
        self._number = 0  # of the last broadcast
        self._notices: list[str] = []

    def send(self, weights: Ref, nodes: Collection[str]) -> Mapping[str, Ref]:
        """Begin a broadcast of weights (a reference to a ``Payload``) that are there to Ray's nodes.

        Returns for each node that takes part a reference to the payload there. The others fetch ``weights`` directly:
        nodes that have them, all nodes if they are too few or the weights too small, and nodes whose relay is starting
        or has not yet received the last ones. Relays start with the first broadcast to enough nodes.
        """
        home, able = self._prepare(weights, nodes)
        if home is None or len(able) <= FAN_OUT:
            return {}
        return self._begin(weights, home, reading_order(able, self._seconds))

    def ready(self, weights: Ref, nodes: Collection[str]) -> bool:
        """Whether all these nodes would take part in a broadcast now; it starts relays that are missing."""
        home, able = self._prepare(weights, nodes)
        return home is not None and len(able) > FAN_OUT and {home, *able}.issuperset(nodes)

    def notices(self) -> list[str]:
        """Return messages for the user about nodes that did not receive as planned, each once."""
        found, self._notices = self._notices, []
        return found

    def close(self) -> None:
        """End all relays."""
        for node in list(self._relays):
            self._end(node)

    def _prepare(self, weights: Ref, nodes: Collection[str]) -> tuple[str | None, list[str]]:
        """See to the relays; returns the node that the weights come from and those that can receive them now."""
        if len(nodes) <= FAN_OUT and not self._relays:
            return None, []
        found = ray.experimental.get_local_object_locations([weights]).get(weights, {})
        homes, size = found.get("node_ids") or [], found.get("object_size") or 0
        if not homes:
            return None, []  # weights small enough to travel in messages, or lost
        home = next((node for node in homes if node in self._relays), min(homes))
        receivers = set(nodes).difference(homes)
        worth_it = len(receivers) > FAN_OUT and size > CHUNK_BYTES
        self._keep_relays({home, *receivers} if worth_it else set())
        able = {node for node, relay in self._relays.items() if relay.started is None and relay.receives is None}
        return home if home in able else None, sorted(able - {home})

    def _begin(self, weights: Ref, home: str, nodes: list[str]) -> dict[str, Ref]:
        self._number += 1
        number, places, sources = self._number, broadcast_tree(len(nodes)), {}
        for node in (home, *nodes):
            sources[node] = RelaySource(f"node {node[:NAME_LENGTH]}", self._relays[node].actor)
        self._relays[home].actor.offer.remote(number, weights)
        copies = {}
        for node, place in zip(nodes, places, strict=True):
            relay = self._relays[node]
            parent = None if place.parent == ROOT else sources[nodes[place.parent]]
            call = relay.actor.receive.options(num_returns=2)
            copies[node], relay.receives = call.remote(
                number, parent, sources[home], time_limits(place, places, self._limit_s)
            )
            relay.since = time.monotonic()
        return copies

    def _keep_relays(self, wanted: set[str]) -> None:
        """Read the relays' answers; end those that are not wanted, dead or stuck, and start those that are missing."""
        for node, relay in list(self._relays.items()):
            self._settle(node, relay)
            if node not in wanted and node in self._relays:
                self._end(node)  # it would keep an idle node from being given back
        for node in wanted.difference(self._relays):
            actor = self._start(node, self._limit_s)
            self._relays[node] = _RelayState(actor, actor.ready.remote(), time.monotonic())

    def _settle(self, node: str, relay: _RelayState) -> None:
        """Read a relay's answer, if there is one."""
        waited = relay.receives if relay.started is None else relay.started
        if waited is None:
            return
        ready, _ = ray.wait([waited], timeout=0)
        try:
            if ready and relay.started is not None:
                ray.get(waited)
                relay.started = None
            elif ready:
                relay.receives = None
                self._received(node, ray.get(waited))
            elif relay.started is None and time.monotonic() - relay.since > 2 * self._limit_s:
                self._fail(node, f"does not answer after {2 * self._limit_s:g} s")
        except RayTaskError as error:
            self._notices.append(
                f"node {node[:NAME_LENGTH]} did not receive weights from other nodes: {one_line(error.cause)}"
            )
            self._seconds.pop(node, None)
        except RayError as error:
            self._fail(node, cause_of_death(error))

    def _received(self, node: str, received: Received) -> None:
        self._seconds[node] = received.seconds
        if received.left is not None:
            self._notices.append(
                f"node {node[:NAME_LENGTH]} read weights from the learner's node, not from its parent: {received.left}"
            )

    def _fail(self, node: str, reason: str) -> None:
        self._notices.append(f"the relay of weights on node {node[:NAME_LENGTH]} {reason}; it is started again")
        self._end(node)

    def _end(self, node: str) -> None:
        self._seconds.pop(node, None)
        ray.kill(self._relays.pop(node).actor)
