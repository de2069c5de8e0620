"""A look into the replay buffer of a run, live or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.configs.schema import Config
from cluster.runs.folder import RunFolder
from cluster.runtime.redis_clients import redis_buffer
from cluster.runtime.replay_server import replay_server
from services.replay.server.embedded import running_url


def inspect(run_dir: Path) -> Mapping[str, float]:
    """The buffer's counters; a stopped run's embedded server is started for the look and stopped again.

    Raises:
        RunError: no run there.
        ReplayError: the server does not answer.
    """
    folder = RunFolder(run_dir)
    config = folder.resumed_config(())
    live = running_url(folder.redis) if config.redis.url is None else None
    if live is not None:
        return _stats(config, live, folder.run_id)
    with replay_server(config, folder) as url:
        return _stats(config, url, folder.run_id)


def _stats(config: Config, url: str, run_id: str) -> Mapping[str, float]:
    buffer = redis_buffer(config, url, run_id)
    try:
        return buffer.stats()
    finally:
        buffer.close()
