"""Nodes of a broadcast in one event loop: what they pass on, refuse and give up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cluster.bench.broadcast.virtual_time import run_in_virtual_time
from cluster.broadcast.node import KEPT, Source, WeightsNode
from cluster.broadcast.plan import TimeLimits
from cluster.broadcast.weights_copy import Chunk
from cluster.errors import LateError, LostError
from grpo_core.types import Probe
from services.weights.payload import Payload, WeightsError, make_payload, make_role_payload, verify

CHUNK = 10
LIMITS = TimeLimits(patience_s=2.0, leave_s=5.0, total_s=20.0)
PROBE = Probe(((1, 2),), ((3,),), ((-0.5,),), ((1.0,),))


def weights(version: int = 1) -> Payload:
    return make_payload(version, bytes(range(95)), PROBE)


class Direct:
    """Reads from a node at once; ``damaged`` chunks arrive with one bit changed."""

    def __init__(self, name: str, node: WeightsNode, damaged: frozenset[int] = frozenset()) -> None:
        self.name = name
        self.reads: list[int] = []
        self._node = node
        self._damaged = damaged

    async def read(self, number: int, index: int) -> Chunk:
        self.reads.append(index)
        chunk = await self._node.read(number, index)
        if index in self._damaged:
            data = chunk.data.copy()
            data[0] ^= 1
            chunk = replace(chunk, data=data)
        return chunk


class Silent:
    """Never answers."""

    name = "node 7"

    async def read(self, number: int, index: int) -> Chunk:
        await asyncio.sleep(3600)
        raise AssertionError("it was waited for")


class Gone:
    """Has died."""

    name = "node 8"

    async def read(self, number: int, index: int) -> Chunk:
        raise LostError("node 8 is gone")


def root_of(payload: Payload, number: int = 1) -> WeightsNode:
    node = WeightsNode(limit_s=100.0)
    node.offer(number, payload, CHUNK)
    return node


@pytest.mark.parametrize(
    "payload",
    [weights(), make_role_payload(3, {"A": (b"a" * 33, PROBE), "B": (b"b" * 20, None)}), make_payload(0, b"x")],
)
def test_a_chain_of_nodes_passes_a_payload_on_whole(payload: Payload) -> None:
    async def main() -> list[Payload]:
        root = root_of(payload)
        nodes = [WeightsNode(100.0) for _ in range(3)]
        sources = [Direct("root", root), *(Direct(f"node {n}", node) for n, node in enumerate(nodes))]
        calls = [node.receive(1, sources[n], sources[0], LIMITS) for n, node in enumerate(nodes)]
        arrived = await asyncio.gather(*reversed(calls))  # the last one begins first
        assert all(received.left is None for _, received in arrived)
        chunks = -(-len(payload.data) // CHUNK)
        assert [sorted(source.reads) for source in sources[:3]] == [list(range(chunks))] * 3
        return [each for each, _ in arrived]

    for arrived in run_in_virtual_time(main()):
        verify(arrived)
        assert bytes(arrived.data) == bytes(payload.data)
        assert replace(arrived, data=b"") == replace(payload, data=b"")


@pytest.mark.parametrize(
    ("parent", "reason"),
    [(Silent(), "node 7 did not send chunk 1 in time"), (Gone(), "node 8 is gone")],
)
def test_a_node_whose_parent_does_not_answer_reads_from_the_root(parent: Source, reason: str) -> None:
    async def main() -> float:
        root = Direct("root", root_of(weights()))
        arrived, received = await WeightsNode(100.0).receive(1, parent, root, LIMITS)
        verify(arrived)
        assert received.left == reason
        return received.seconds

    assert run_in_virtual_time(main()) == (LIMITS.patience_s if isinstance(parent, Silent) else 0.0)


def test_a_damaged_chunk_is_refused_and_read_again_from_the_root() -> None:
    async def main() -> None:
        root = Direct("root", root_of(weights()))
        first = WeightsNode(100.0)
        await first.receive(1, None, root, LIMITS)
        parent = Direct("node 5", first, damaged=frozenset({4}))
        arrived, received = await WeightsNode(100.0).receive(1, parent, root, LIMITS)
        verify(arrived)
        assert received.left is not None
        assert received.left.startswith("chunk 5 of 10 of the weights, from node 5, is damaged: 10 bytes with CRC-32 ")

    run_in_virtual_time(main())


def test_a_chunk_that_is_damaged_at_the_root_is_refused_for_good_and_children_hear_it_at_once() -> None:
    async def main() -> float:
        root = root_of(weights())
        damaged, whole = Direct("the root", root, frozenset({4})), Direct("the root", root)
        parent = WeightsNode(100.0)
        child = WeightsNode(100.0).receive(1, Direct("node 0", parent), whole, LIMITS)
        refused, arrived = await asyncio.gather(parent.receive(1, None, damaged, LIMITS), child, return_exceptions=True)
        assert isinstance(refused, WeightsError)
        assert "chunk 5 of 10 of the weights, from the root, is damaged" in str(refused)
        assert not isinstance(arrived, BaseException)
        verify(arrived[0])
        assert "is damaged" in str(arrived[1].left)
        return arrived[1].seconds

    assert run_in_virtual_time(main()) == 0.0


def test_a_root_that_does_not_answer_ends_the_wait() -> None:
    async def main() -> None:
        with pytest.raises(LateError, match="node 7 did not send chunk 1 in time"):
            await WeightsNode(100.0).receive(1, None, Silent(), LIMITS)
        assert asyncio.get_running_loop().time() == LIMITS.total_s

    run_in_virtual_time(main())


def test_a_read_of_what_never_comes_ends() -> None:
    async def main() -> None:
        with pytest.raises(LateError, match="chunk 1 did not arrive there within 100 s"):
            await WeightsNode(100.0).read(1, 0)

    run_in_virtual_time(main())


def test_a_node_keeps_the_newest_broadcasts_and_drops_them_after_the_limit() -> None:
    async def main() -> None:
        node = WeightsNode(limit_s=100.0)
        for number in range(1, KEPT + 2):
            node.offer(number, weights(number), CHUNK)
        with pytest.raises(LostError, match="broadcast 1 is over there"):
            await node.read(1, 0)
        assert (await node.read(KEPT + 1, 0)).index == 0
        await asyncio.sleep(101.0)
        with pytest.raises(LateError):
            await node.read(KEPT + 1, 0)

    run_in_virtual_time(main())
