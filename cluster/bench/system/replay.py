"""Megabytes a second of episodes through the replay buffer, beside bare redis-py moving as many bytes."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import redis

from cluster.bench.figure import Figure, interleaved_seconds
from grpo_core.types import Episode, Turn
from services.replay.codec import decode, encode
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode

BLOCKS = 12
BLOCK_SIZE = 8
CHOICES = 28  # admissible ids at a sampled token: with 20 turns of 100 + 100 tokens, about 100 KB encoded
MEGABYTE = 1e6
_READ = 64


def run(rounds: int) -> list[Figure]:
    """Append one by one, take together, acknowledge: 96 episodes of 20 turns, all on one embedded server.

    Ours checks, compresses, drops duplicates, delivers whole blocks and hands out ``Episode``s. The yardsticks are
    XADD, XREADGROUP, XACK and XDEL of finished bytes: as many as ours stores, and as many as ours carries.
    """
    episodes = [
        synthetic_episode(f"b{block}", member, block_size=BLOCK_SIZE, choices=CHOICES)
        for block in range(BLOCKS)
        for member in range(BLOCK_SIZE)
    ]
    encoded = [encode(episode) for episode in episodes]
    payload = [bytes(sum(map(_array_bytes, episode.turns))) for episode in episodes]
    encoded_mb, payload_mb = sum(map(len, encoded)) / MEGABYTE, sum(map(len, payload)) / MEGABYTE
    names = (f"round{number}" for number in itertools.count())
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer.start(Path(folder)) as server:
        buffer = RedisBuffer(server.url, "bench", group_timeout_s=600, connect_timeout_s=10)
        bare = redis.Redis.from_url(server.url)
        try:
            bare.xgroup_create("bare", "learner", "0", mkstream=True)
            same_s, bare_encoded_s = interleaved_seconds(
                lambda: _ours(buffer, episodes, next(names)), lambda: _bare(bare, encoded), rounds
            )
            again_s, bare_payload_s = interleaved_seconds(
                lambda: _ours(buffer, episodes, next(names)), lambda: _bare(bare, payload), rounds
            )
        finally:
            buffer.close()
            bare.close()
    count = len(episodes)
    note = (
        f"{count} episodes of {payload_mb / count * 1000:.0f} KB arrays, {encoded_mb / count * 1000:.0f} KB encoded; "
        f"append-only file synced at every write; "
        f"encode + decode alone {_codec_ms(episodes):.2f} ms an episode; median of {rounds}"
    )
    return [
        Figure(
            "replay, encoded bytes",
            "MB/s",
            encoded_mb / same_s,
            encoded_mb / bare_encoded_s,
            "bare redis-py",
            note=note,
        ),
        Figure(
            "replay, payload bytes",
            "MB/s",
            payload_mb / again_s,
            payload_mb / bare_payload_s,
            "bare redis-py, uncompressed",
            note=note,
        ),
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


def _bare(client: redis.Redis, values: Sequence[bytes]) -> None:
    for value in values:
        client.xadd("bare", {"episode": value})
    received = 0
    while received < len(values):
        reply = cast(Any, client).execute_command(
            "XREADGROUP", "GROUP", "learner", "learner", "COUNT", _READ, "STREAMS", "bare", ">"
        )
        entries = dict(reply)[b"bare"] if not isinstance(reply, dict) else reply[b"bare"]
        ids = [entry[0] for entry in entries]
        client.xack("bare", "learner", *ids)
        client.xdel("bare", *ids)
        received += len(ids)


def _codec_ms(episodes: Sequence[Episode]) -> float:
    start = time.perf_counter()
    for episode in episodes:
        decode(encode(episode))
    return (time.perf_counter() - start) / len(episodes) * 1000


def _array_bytes(turn: Turn) -> int:
    return sum(
        array.nbytes
        for array in (
            turn.prompt_ids,
            turn.completion_ids,
            turn.logprobs,
            turn.trained_mask,
            turn.admissible_ids,
            turn.admissible_offsets,
        )
    )
