"""Megabytes a second of episodes through the replay buffer, beside bare redis-py moving the same encoded bytes."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import redis

from cluster.bench.figure import Figure, interleaved_seconds
from grpo_core.types import Episode
from services.replay.codec import decode, encode
from services.replay.embedded import EmbeddedServer
from services.replay.redis_buffer import RedisBuffer
from services.replay.synthetic import synthetic_episode

BLOCKS = 16
BLOCK_SIZE = 8
MEGABYTE = 1e6


def run(rounds: int) -> list[Figure]:
    """Append, take and acknowledge 128 episodes of 20 turns, on one embedded server; ``rounds`` a side.

    Ours checks, compresses and drops duplicates, delivers whole blocks and hands out ``Episode``s; the yardstick moves
    the finished bytes with XADD, XREADGROUP, XACK and XDEL. The last figure leaves the codec out of both sides.
    """
    episodes = [_episode(f"warm{block}", member) for block in range(BLOCKS) for member in range(BLOCK_SIZE)]
    encoded = [encode(episode) for episode in episodes]
    payload_mb = sum(map(payload_bytes, episodes)) / MEGABYTE
    encoded_mb = sum(map(len, encoded)) / MEGABYTE
    names = (f"round{number}" for number in itertools.count())
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer.start(Path(folder)) as server:
        buffer = RedisBuffer(server.url, "bench", group_timeout_s=600, connect_timeout_s=10)
        bare = redis.Redis.from_url(server.url)
        bare.xgroup_create("bare", "learner", "0", mkstream=True)
        try:
            ours_s, bare_s = interleaved_seconds(
                lambda: _through_buffer(buffer, next(names)), lambda: _through_bare(bare, encoded), rounds
            )
        finally:
            buffer.close()
            bare.close()
    codec_s, _ = interleaved_seconds(lambda: _codec(episodes), lambda: None, rounds)
    size = f"{payload_mb / len(episodes) * 1000:.0f} KB of arrays, {encoded_mb / len(episodes) * 1000:.0f} KB encoded"
    note = f"{len(episodes)} episodes of {size}; append + take + acknowledge, append-only file on, median of {rounds}"
    return [
        Figure(
            name="replay, payload",
            unit="MB/s",
            ours=payload_mb / ours_s,
            yardstick=encoded_mb / bare_s,
            yardstick_name="bare redis-py, the encoded bytes",
            note=f"{note}; ours counts the arrays it carries, and includes making, checking and compressing them",
        ),
        Figure(
            name="replay, encoded",
            unit="MB/s",
            ours=encoded_mb / ours_s,
            yardstick=encoded_mb / bare_s,
            yardstick_name="bare redis-py, the encoded bytes",
            note=f"{note}; both count encoded bytes",
        ),
        Figure(
            name="replay without the codec",
            unit="MB/s",
            ours=encoded_mb / max(ours_s - codec_s, 1e-9),
            yardstick=encoded_mb / bare_s,
            yardstick_name="bare redis-py, the encoded bytes",
            note=f"{note}; less {codec_s / len(episodes) * 1000:.2f} ms an episode to encode and decode, timed apart",
        ),
    ]
