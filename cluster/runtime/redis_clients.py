"""The replay buffer a configuration asks for."""

from __future__ import annotations

from cluster.configs.schema import Config
from services.replay.redis_store.buffer import RedisBuffer


def redis_buffer(config: Config, url: str, run_id: str) -> RedisBuffer:
    """The buffer of one run on the server at ``url``; connects at its first use."""
    return RedisBuffer(
        url,
        run_id,
        group_timeout_s=config.redis.group_timeout_s,
        connect_timeout_s=config.redis.connect_timeout_s,
        answer_timeout_s=config.redis.answer_timeout_s,
    )
