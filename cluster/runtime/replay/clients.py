"""The clients of a run's replay servers: the replay buffer and the population's mirror."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from opponents.population.redis_mirror import PopulationMirror
from services.replay.buffer import ReplayBuffer
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.several_servers.buffer import SeveralServersBuffer
from services.settings import RedisSettings

GRACE_S = 60.0  # that a run's processes wait longer for an external server than its driver, which ends them


def replay_buffer(
    settings: RedisSettings, urls: Sequence[str], roles: Sequence[str], run_id: str, *, patient: bool = False
) -> ReplayBuffer:
    """The buffer of one run on its servers, in their order; ``roles`` are those of its world, in their order.

    Each server is asked at once; ``patient``: an external one may be away. Without it that holds only once it has
    answered. Of several, each keeps its place: ReplayError if one has had another place in this run.
    """
    if len(urls) == 1:
        return redis_buffer(settings, urls[0], run_id, patient=patient)
    with ExitStack() as stack:
        buffers = []
        for number, url in enumerate(urls, 1):
            buffers.append(buffer := redis_buffer(settings, url, run_id, patient=patient))
            stack.callback(buffer.close)
            buffer.claim_place(f"{number} of {len(urls)}")
        stack.pop_all()
        return SeveralServersBuffer(buffers, roles)


def redis_buffer(
    settings: RedisSettings, url: str, run_id: str, *, patient: bool = False, grace_s: float = GRACE_S
) -> RedisBuffer:
    """The buffer of one run on the server at ``url`` alone; ``patient`` as for ``replay_buffer``."""
    return RedisBuffer(
        url,
        run_id,
        group_timeout_s=settings.group_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        away_timeout_s=_away_timeout_s(settings, grace_s),
        patient=patient,
        max_entry_bytes=settings.max_episode_mib << 20,
    )


def population_mirror(
    settings: RedisSettings, limit_mib: int, urls: Sequence[str], run_id: str, *, patient: bool = False
) -> PopulationMirror:
    """The mirror of one run, on the first of its servers; connects at its first use, ``patient`` as for a buffer."""
    return PopulationMirror(
        urls[0],
        run_id,
        connect_timeout_s=settings.connect_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        away_timeout_s=_away_timeout_s(settings, GRACE_S),
        patient=patient,
        limit_mib=limit_mib,
    )


def _away_timeout_s(settings: RedisSettings, grace_s: float) -> float | None:
    """Seconds to wait for an external server; None for the run's own, whose end is an accident of the run."""
    return settings.away_timeout_s + grace_s if settings.external else None
