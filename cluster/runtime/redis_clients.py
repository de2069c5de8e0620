"""Clients of the run's Redis-protocol server: the replay buffer and the mirror of the population."""

from __future__ import annotations

from opponents.population.redis_mirror import PopulationMirror
from services.replay.redis_store.buffer import RedisBuffer
from services.settings import RedisSettings


def redis_buffer(settings: RedisSettings, url: str, run_id: str) -> RedisBuffer:
    """The buffer of one run on the server at ``url``; connects at its first use."""
    return RedisBuffer(
        url,
        run_id,
        group_timeout_s=settings.group_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
    )


def population_mirror(settings: RedisSettings, limit_mib: int, url: str, run_id: str) -> PopulationMirror:
    """The mirror of one run on the server at ``url``; connects at its first use."""
    return PopulationMirror(
        url,
        run_id,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        limit_mib=limit_mib,
    )
