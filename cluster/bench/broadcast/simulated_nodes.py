"""Nodes with simulated links, which run the real broadcast: its tree, its chunks, its windows and its time limits.

Every node has a link of its own, which sends one chunk at a time and receives one at a time, each at a limited rate.
The bytes are real, but fewer: one of them stands for ``SCALE``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cluster.bench.broadcast.virtual_time import run_in_virtual_time
from cluster.broadcast.node import Received, WeightsNode
from cluster.broadcast.plan import CHUNK_BYTES, ROOT, Place, TimeLimits, time_limits
from cluster.broadcast.weights_copy import Chunk
from cluster.errors import LostError
from services.weights.payload import Payload, WeightsError, make_payload, verify

SCALE = 1024
BROADCAST = 1  # its number; each simulation has one


@dataclass(frozen=True, slots=True)
class Link:
    """What a node's connection to the network can do."""

    upload: float = 125e6  # bytes/s; 1 Gbit/s
    download: float = 125e6  # bytes/s
    latency_s: float = 0.001  # from asking for a chunk until it begins to be sent


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a node in the middle of a broadcast."""

    after: int  # chunks that others have read from it
    silent: bool = True  # reads have no answer, as after a loss of power; False: they fail at once


class SimulatedNode:
    """A node: its weights, its link, and its fault, if it has one."""

    def __init__(self, name: str, link: Link, limit_s: float, fault: Fault | None = None) -> None:
        self.name = name
        self.link = link
        self.weights = WeightsNode(limit_s)
        self.uploading = asyncio.Lock()
        self.downloading = asyncio.Lock()
        self.sent = 0  # chunks
        self._fault = fault

    @property
    def faulty(self) -> bool:
        """Whether its fault has come."""
        return self._fault is not None and self.sent >= self._fault.after

    async def refuse(self) -> None:
        """Answer a read as a faulty node does: never, or with LostError."""
        assert self._fault is not None
        if self._fault.silent:
            await asyncio.get_running_loop().create_future()
        raise LostError(f"{self.name} is gone")


class SimulatedSource:
    """One node as another one reads from it."""

    def __init__(self, sender: SimulatedNode, receiver: SimulatedNode) -> None:
        self.name = sender.name
        self._sender = sender
        self._receiver = receiver

    async def read(self, number: int, index: int) -> Chunk:
        """Return a chunk after the time that it takes on its way."""
        sender, receiver = self._sender, self._receiver
        await asyncio.sleep(sender.link.latency_s)
        if not sender.faulty:
            chunk = await sender.weights.read(number, index)
            size = len(chunk.data) * SCALE
            async with receiver.downloading:
                async with sender.uploading:
                    await asyncio.sleep(size / sender.link.upload)
                    sender.sent += 1
                # What is left of the chunk on a slower download does not keep the sender from others.
                await asyncio.sleep(max(0.0, size / receiver.link.download - size / sender.link.upload))
        if sender.faulty:
            await sender.refuse()
        return chunk


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the broadcast on each of R receivers."""

    received: Sequence[Received | None]  # (R,); None: it did not get the weights
    sent: Sequence[int]  # (R + 1,) chunks that each node sent, the learner's node first

    @property
    def seconds(self) -> float:
        """Until the last receiver that got the weights had them all."""
        return max(each.seconds for each in self.received if each is not None)


def simulate(
    places: Sequence[Place],
    size: int,
    *,
    link: Link | None = None,
    links: Mapping[int, Link] | None = None,
    faults: Mapping[int, Fault] | None = None,
    limit_s: float = 600.0,
) -> Outcome:
    """Send ``size`` bytes to one receiver for each place of a tree, and compare what arrives.

    ``link`` is every node's, except for the receivers numbered in ``links``; ``faults`` are those of receivers.
    """
    payload = make_payload(1, random.Random(0).randbytes(size // SCALE))
    return run_in_virtual_time(_broadcast(places, payload, link or Link(), links or {}, faults or {}, limit_s))


def plain_loop(count: int) -> list[Place]:
    """Every node reads from the learner's node."""
    return [Place(ROOT, 1)] * count


async def _broadcast(
    places: Sequence[Place],
    payload: Payload,
    link: Link,
    links: Mapping[int, Link],
    faults: Mapping[int, Fault],
    limit_s: float,
) -> Outcome:
    root = SimulatedNode("the learner's node", link, limit_s)
    root.weights.offer(BROADCAST, payload, CHUNK_BYTES // SCALE)
    nodes = [
        SimulatedNode(f"node {number}", links.get(number, link), limit_s, faults.get(number))
        for number in range(len(places))
    ]

    async def receive(number: int, place: Place, limits: TimeLimits) -> Received | None:
        node = nodes[number]
        parent = None if place.parent == ROOT else SimulatedSource(nodes[place.parent], node)
        with suppress(LostError, WeightsError):
            arrived, received = await node.weights.receive(BROADCAST, parent, SimulatedSource(root, node), limits)
            verify(arrived)
            return received
        return None

    calls = [receive(number, place, time_limits(place, places, limit_s)) for number, place in enumerate(places)]
    return Outcome(await asyncio.gather(*calls), [root.sent, *(node.sent for node in nodes)])
