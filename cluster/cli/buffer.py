"""``entente buffer``: the replay buffer of a run, live or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from cluster.cli.options import Run

commands = typer.Typer(help="Look into the replay buffer.", no_args_is_help=True)


@commands.command("inspect", epilog="Example: `entente buffer inspect runs/demo`")
def inspect(run: Run) -> None:
    """Print how much of a run's replay buffer waits, is delivered, acknowledged or set aside."""
    for name, value in read_counters(run).items():
        typer.echo(f"{name:<24} {value:,.0f}")


def read_counters(run_dir: Path) -> Mapping[str, float]:
    """Read the buffer's counters; a stopped run's embedded server is started for this and stopped again.

    Raises RunError if there is no run, ReplayError if the server does not answer.
    """
    from contextlib import closing, nullcontext

    from cluster.runs.folder import RunFolder
    from cluster.runtime.redis_clients import redis_buffer
    from cluster.runtime.replay_server import replay_server
    from services.replay.server.embedded import running_url

    folder = RunFolder(run_dir)
    config = folder.stored_config()
    live = running_url(folder.redis) if config.redis.url is None else None
    with (
        nullcontext(live) if live is not None else replay_server(config.redis, folder.redis) as url,
        closing(redis_buffer(config.redis, url, folder.run_id)) as buffer,
    ):
        return buffer.stats()
