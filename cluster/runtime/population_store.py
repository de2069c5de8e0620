"""A run's population where its processes find it: the file in the run's folder, and a mirror on its Redis server."""

from __future__ import annotations

from cluster.configs.schema import Config
from opponents.population.redis_mirror import PopulationMirror


def population_mirror(config: Config, url: str, run_id: str) -> PopulationMirror:
    """The mirror of one run on the server at ``url``; connects at its first use."""
    return PopulationMirror(
        url,
        run_id,
        connect_timeout_s=config.redis.connect_timeout_s,
        answer_timeout_s=config.redis.answer_timeout_s,
        limit_mib=config.opponents.mirror_mib,
    )
