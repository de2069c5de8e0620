"""Megabytes a second of episodes through the replay buffer, beside bare redis-py moving as many bytes."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import redis

from cluster.bench.figure import Figure, interleaved_seconds
from grpo_core.types import Episode, Turn
from services.replay.codec import encode
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode

BLOCKS = 12
BLOCK_SIZE = 8
CHOICES = 28  # admissible ids at a sampled token: with 20 turns of 100 + 100 tokens, about 100 KB encoded
_READ = 64


def run(rounds: int) -> list[Figure]:
    """Append one by one, take together and acknowledge 96 episodes of 20 turns on one embedded server.

    Our side checks, compresses, drops duplicates, delivers whole blocks and returns ``Episode``s. The yardsticks are
    XADD, XREADGROUP, XACK and XDEL of finished bytes: as many as ours stores, and as many as its arrays have.
    """
    episodes = [
        synthetic_episode(f"b{block}", member, block_size=BLOCK_SIZE, choices=CHOICES)
        for block in range(BLOCKS)
        for member in range(BLOCK_SIZE)
    ]
    encoded = [encode(episode) for episode in episodes]
    payload = [bytes(sum(map(_array_bytes, episode.turns))) for episode in episodes]
    megabytes = {"encoded": sum(map(len, encoded)) / 1e6, "payload": sum(map(len, payload)) / 1e6}
    names = (f"round{number}" for number in itertools.count())
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer.start(Path(folder)) as server:
        buffer = RedisBuffer(server.url, "bench", group_timeout_s=600, connect_timeout_s=10)
        bare = BareStream(server.url)
        try:
            seconds = {
                kind: interleaved_seconds(
                    {"ours": lambda: _ours(buffer, episodes, next(names)), "bare": partial(bare.carry, values)}, rounds
                )
                for kind, values in (("encoded", encoded), ("payload", payload))
            }
        finally:
            buffer.close()
            bare.close()
    count = len(episodes)
    note = (
        f"{count} episodes of {megabytes['payload'] / count * 1000:.0f} KB arrays, "
        f"{megabytes['encoded'] / count * 1000:.0f} KB encoded; append-only file synced at every write; "
        f"median of {rounds}"
    )
    rates = {kind: {side: size / seconds[kind][side] for side in ("ours", "bare")} for kind, size in megabytes.items()}
    return [
        Figure(f"replay, {kind} bytes", "MB/s", rates[kind]["ours"], rates[kind]["bare"], yardstick, note=note)
        for kind, yardstick in (("encoded", "bare redis-py"), ("payload", "bare redis-py, uncompressed"))
    ]


def _ours(buffer: RedisBuffer, episodes: Sequence[Episode], name: str) -> None:
    for episode in episodes:
        buffer.append(
            [replace(episode, episode_id=f"{name}/{episode.episode_id}", block_id=f"{name}/{episode.block_id}")]
        )
    delivery = buffer.take({episodes[0].role: BLOCKS}, timeout_s=10)
    if len(delivery.episodes) != len(episodes):
        raise RuntimeError(f"{len(delivery.episodes)} of {len(episodes)} episodes came back")
    buffer.acknowledge(delivery.receipts)


class BareStream:
    """The yardstick: a stream with a consumer group, moved by redis-py alone."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url)
        self._client.xgroup_create("bare", "learner", "0", mkstream=True)

    def write(self, value: bytes) -> None:
        """Append an entry."""
        self._client.xadd("bare", {"episode": value})

    def read(self, *options: str | int) -> int:
        """Read at most 64 entries, acknowledge and delete them; returns their number."""
        reply = self._client.execute_command(
            "XREADGROUP", "GROUP", "learner", "learner", "COUNT", _READ, *options, "STREAMS", "bare", ">"
        )
        ids = [entry[0] for entry in dict(reply)[b"bare"]] if reply else []
        if ids:
            self._client.xack("bare", "learner", *ids)
            self._client.xdel("bare", *ids)
        return len(ids)

    def carry(self, values: Sequence[bytes]) -> None:
        """Write all values, then read as many."""
        for value in values:
            self.write(value)
        received = 0
        while received < len(values):
            received += self.read()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _array_bytes(turn: Turn) -> int:
    return sum(value.nbytes for name in fields(turn) if isinstance(value := getattr(turn, name.name), np.ndarray))
