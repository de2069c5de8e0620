"""Relays of a broadcast that damage what they pass on, or stop passing it on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cluster.broadcast.relay import Relay
from cluster.broadcast.weights_copy import Chunk

FROM = 2  # the first chunk with a fault


class DamagingRelay(Relay):
    """Changes one bit of a chunk on its way to a child."""

    async def read(self, number: int, index: int) -> Chunk:
        chunk = await super().read(number, index)
        if index != FROM:
            return chunk
        data = chunk.data.copy()
        data[7] ^= 1
        return replace(chunk, data=data)


class StallingRelay(Relay):
    """Passes on the first chunks alone; ``stalled`` answers once others wait for the rest."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s)
        self._stalled = asyncio.Event()

    async def read(self, number: int, index: int) -> Chunk:
        if index >= FROM:
            self._stalled.set()
            await asyncio.sleep(3600)
        return await super().read(number, index)

    async def stalled(self) -> None:
        await asyncio.wait_for(self._stalled.wait(), 300)
