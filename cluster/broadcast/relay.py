"""The Ray actor that a node takes part in broadcasts with."""

from __future__ import annotations

from typing import Any

from cluster.broadcast.node import Received, WeightsNode
from cluster.broadcast.plan import TimeLimits
from cluster.broadcast.weights_copy import Chunk
from cluster.errors import LostError
from services.weights.payload import Payload


class Relay:
    """Ray actor of a ``WeightsNode``, whose methods it forwards; one on each node of a broadcast."""

    def __init__(self, limit_s: float) -> None:
        self._node = WeightsNode(limit_s)

    async def ready(self) -> None:
        """Return as soon as the actor runs."""

    async def offer(self, number: int, payload: Payload) -> None:  # noqa: D102
        self._node.offer(number, payload)

    async def read(self, number: int, index: int) -> Chunk:  # noqa: D102
        return await self._node.read(number, index)

    async def receive(
        self, number: int, parent: RelaySource | None, root: RelaySource, limits: TimeLimits
    ) -> tuple[Payload, Received]:
        """Return the payload, which Ray puts into this node's object store, and how it came."""
        return await self._node.receive(number, parent, root, limits)


class RelaySource:
    """The relay of another node, as a relay reads from it.

    The answer to a read is an object in the other node's store, which this node then fetches from there alone; an
    object with copies on several nodes is fetched from any of them.
    """

    def __init__(self, name: str, actor: Any) -> None:
        """``name``: the node's; ``actor``: the handle of its ``Relay``."""
        self.name = name
        self._actor = actor

    async def read(self, number: int, index: int) -> Chunk:
        """Read a chunk. Raises LostError if the other node is gone or does not have it."""
        from ray.exceptions import RayError, RayTaskError

        try:
            chunk: Chunk = await self._actor.read.remote(number, index)
        except RayTaskError as error:
            raise LostError(f"{self.name}: {error.cause}") from None
        except RayError as error:
            raise LostError(f"{self.name} is gone ({type(error).__name__})") from None
        return chunk
