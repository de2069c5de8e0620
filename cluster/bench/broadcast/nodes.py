"""Seconds until 1 to 64 nodes have 100 MB of weights: down the tree, beside the same from the learner's node alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cluster.bench.broadcast.ray_nodes import other_nodes, ray_nodes, takers_on, wait_for_relays
from cluster.bench.broadcast.simulated_nodes import Link, plain_loop, simulate
from cluster.bench.figure import Figure, interleaved_seconds
from cluster.broadcast.delivery import Delivery
from cluster.broadcast.plan import broadcast_tree
from services.weights.payload import make_payload

SIZE = 100_000_000  # bytes
RECEIVERS = (1, 4, 16, 64)
REAL_RECEIVERS = 4
STORE_BYTES = 600 << 20  # of each node's object store: weights of a few broadcasts
LIMIT_S = 60.0
YARDSTICK = "every node reads from the learner's node"


def run(rounds: int) -> list[Figure]:
    """Simulate each number of receivers once, which has no noise, and time a real Ray; ``rounds`` a side there."""
    return [*map(_simulated, RECEIVERS), _real(rounds)]


def _simulated(receivers: int) -> Figure:
    tree = simulate(broadcast_tree(receivers), SIZE)
    plain = simulate(plain_loop(receivers), SIZE)
    link = Link()
    note = (
        f"until the last one has all; simulated links of {link.upload * 8 / 1e9:g} Gbit/s up and "
        f"{link.download * 8 / 1e9:g} down for each node, {link.latency_s * 1e3:g} ms a request; computing takes no "
        f"time; the learner's node sends {tree.sent[0] * SIZE / sum(tree.sent) * receivers / 1e6:.0f} MB in the tree"
    )
    name = f"broadcast, {receivers} simulated receivers, {SIZE / 1e6:.0f} MB"
    return Figure(name, "s", tree.seconds, plain.seconds, YARDSTICK, lower_is_better=True, note=note)


def _real(rounds: int) -> Figure:
    """All nodes are on this machine: no link is slow, and what both sides cost is its memory and its cores."""
    with ray_nodes(REAL_RECEIVERS + 1, STORE_BYTES):
        import ray

        from cluster.broadcast.broadcaster import Broadcaster

        nodes = other_nodes()
        takers = takers_on(nodes)
        data, broadcaster = os.urandom(SIZE), Broadcaster(LIMIT_S)

        def put() -> Any:
            return ray.put(make_payload(1, data))

        def take(weights: Any, copies: Mapping[str, Any]) -> None:
            calls = [
                taker.take.remote(Delivery(copies[node], weights, LIMIT_S) if node in copies else weights)
                for node, taker in takers.items()
            ]
            ray.get(calls, timeout=LIMIT_S)

        def tree() -> None:
            weights = put()
            wait_for_relays(broadcaster, weights, nodes)
            take(weights, broadcaster.send(weights, nodes))
            assert not (notices := broadcaster.notices()), notices

        def plain() -> None:
            take(put(), {})

        try:
            tree()  # the relays and the stores' pages exist before the clock starts
            plain()
            seconds = interleaved_seconds({"tree": tree, "plain": plain}, rounds)
        finally:
            broadcaster.close()
    note = (
        f"{REAL_RECEIVERS} raylets beside the learner's on this machine, whose links are its memory; put + broadcast + "
        f"SHA-256 on each node; median of {rounds}"
    )
    name = f"broadcast, {REAL_RECEIVERS} Ray nodes, {SIZE / 1e6:.0f} MB"
    return Figure(name, "s", seconds["tree"], seconds["plain"], YARDSTICK, lower_is_better=True, note=note)
