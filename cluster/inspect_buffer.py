"""A look into the replay buffer of a run, live or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.run_folder import RunFolder
from cluster.runtime import replay_server
from services.replay.redis_buffer import RedisBuffer


def inspect(run_dir: Path) -> Mapping[str, float]:
    """The buffer's counters; a stopped run's embedded server is started for the look and stopped again.

    Raises:
        RunError: no run there.
        ReplayError: the server does not answer.
    """
    folder = RunFolder(run_dir)
    config = folder.resumed_config(())
    with replay_server(config, folder) as url:
        buffer = RedisBuffer(
            url,
            folder.run_id,
            group_timeout_s=config.redis.group_timeout_s,
            connect_timeout_s=config.redis.connect_timeout_s,
        )
        try:
            return buffer.stats()
        finally:
            buffer.close()
