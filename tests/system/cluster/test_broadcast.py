"""Broadcasts of weights in a real Ray of several nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.bench.broadcast.ray_nodes import WeightsTaker, other_nodes, ray_nodes, takers_on, wait_for_relays
from cluster.broadcast.broadcaster import Broadcaster
from cluster.broadcast.delivery import Delivery
from cluster.broadcast.plan import CHUNK_BYTES, FAN_OUT
from cluster.broadcast.relay import Relay
from services.weights.payload import Payload, WeightsError, make_payload
from tests.system.support.faulty_relays import DamagingRelay, StallingRelay

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
SIZE = 6 * CHUNK_BYTES - 1000
LIMIT_S = 120.0
ANSWER_S = 300.0


@pytest.fixture(scope="module")
def several_nodes() -> Iterator[Any]:
    """Four nodes beside the one where the weights come from: two levels, and one node to lose."""
    with ray_nodes(FAN_OUT + 3, 200 << 20) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def takers(several_nodes: Any) -> dict[str, Any]:
    return takers_on(other_nodes())


def weights(version: int) -> Payload:
    return make_payload(version, os.urandom(SIZE))


def faulty(kind: type[Relay], node: str) -> tuple[Broadcaster, dict[str, Any]]:
    """A broadcaster whose relay on one node is of another kind, and its relays by node."""
    relays: dict[str, Any] = {}

    def start(where: str, limit_s: float) -> Any:
        place = NodeAffinitySchedulingStrategy(where, soft=False)
        actor = ray.remote(kind if where == node else Relay).options(num_cpus=0, scheduling_strategy=place)
        relays[where] = actor.remote(limit_s)
        return relays[where]

    return Broadcaster(LIMIT_S, start), relays


def taken(takers: dict[str, Any], origin: Any, copies: dict[str, Any]) -> list[Any]:
    """References to the checksums of what each node takes; LIMIT_S would show as a late answer."""
    return [taker.take.remote(Delivery(copies[node], origin, LIMIT_S)) for node, taker in takers.items()]


def test_all_nodes_have_the_right_bytes_in_their_own_store(takers: dict[str, Any]) -> None:
    broadcaster = Broadcaster(LIMIT_S)
    try:
        for version in range(3):
            sent = weights(version)
            origin = ray.put(sent)
            wait_for_relays(broadcaster, origin, list(takers))
            copies = dict(broadcaster.send(origin, list(takers)))
            assert ray.get(taken(takers, origin, copies), timeout=ANSWER_S) == [sent.checksum] * len(takers)
            places = ray.experimental.get_object_locations([origin, *copies.values()])
            assert len(places[origin]["node_ids"]) == 1, "a node fetched the weights from the learner's store"
            assert [node in places[copy]["node_ids"] for node, copy in copies.items()] == [True] * len(takers)
        # A node without a part in the broadcast fetches the weights as it always did.
        late = ray.remote(WeightsTaker).options(num_cpus=0).remote()
        assert ray.get(late.take.remote(origin), timeout=ANSWER_S) == sent.checksum
        assert broadcaster.notices() == []
    finally:
        broadcaster.close()


def test_few_nodes_and_small_weights_go_the_plain_way(takers: dict[str, Any]) -> None:
    broadcaster = Broadcaster(LIMIT_S)
    try:
        assert broadcaster.send(ray.put(weights(0)), list(takers)[:FAN_OUT]) == {}
        adapter = ray.put(make_payload(0, os.urandom(CHUNK_BYTES // 2)))
        assert broadcaster.send(adapter, list(takers)) == {}
        assert not broadcaster.ready(adapter, list(takers))
    finally:
        broadcaster.close()


def test_damaged_weights_are_refused_in_a_line_that_names_chunk_and_node(takers: dict[str, Any]) -> None:
    damaging = min(takers)  # the first in the tree, with children
    broadcaster, _ = faulty(DamagingRelay, damaging)
    try:
        sent = weights(5)
        origin = ray.put(sent)
        wait_for_relays(broadcaster, origin, list(takers))
        copies = dict(broadcaster.send(origin, list(takers)))
        assert ray.get(taken(takers, origin, copies), timeout=ANSWER_S) == [sent.checksum] * len(takers)
        wait_for_relays(broadcaster, origin, list(takers))  # reads the answers
        notices = broadcaster.notices()
        assert len(notices) == FAN_OUT
        for notice in notices:
            assert f"chunk 3 of 6 of the weights, from node {damaging[:8]}, is damaged: 4194304 bytes with" in notice
        # What is whole in transit, and still not what the learner published, is refused by each actor.
        wrong = ray.put(replace(sent, checksum="0" * 64))
        copies = dict(broadcaster.send(wrong, list(takers)))
        for answer in taken(takers, wrong, copies):
            with pytest.raises(WeightsError, match=r"weights of version 5 are damaged: .* expected 000000000000"):
                ray.get(answer, timeout=ANSWER_S)
    finally:
        broadcaster.close()


def test_a_node_killed_in_the_middle_holds_up_no_other(several_nodes: Any, takers: dict[str, Any]) -> None:
    doomed = min(takers)
    broadcaster, relays = faulty(StallingRelay, doomed)
    try:
        sent = weights(9)
        origin = ray.put(sent)
        wait_for_relays(broadcaster, origin, list(takers))
        copies = dict(broadcaster.send(origin, list(takers)))
        others = {node: taker for node, taker in takers.items() if node != doomed}
        answers = taken(others, origin, copies)
        ray.get(relays[doomed].stalled.remote(), timeout=ANSWER_S)
        (node,) = [node for node in several_nodes.worker_nodes if node.node_id == doomed]
        several_nodes.remove_node(node, allow_graceful=False)
        assert ray.get(answers, timeout=ANSWER_S) == [sent.checksum] * len(others)
        places = ray.experimental.get_object_locations([origin, *(copies[node] for node in others)])
        assert len(places[origin]["node_ids"]) == 1, "a copy did not arrive: its actor fetched the weights itself"
        # The next broadcast is one of the nodes that are left.
        wait_for_relays(broadcaster, origin, list(others))
        copies = dict(broadcaster.send(origin, list(others)))
        assert set(copies) == set(others)
        assert ray.get(taken(others, origin, copies), timeout=ANSWER_S) == [sent.checksum] * len(others)
        notices = broadcaster.notices()
        assert len([notice for notice in notices if "not from its parent" in notice]) == FAN_OUT
    finally:
        broadcaster.close()
