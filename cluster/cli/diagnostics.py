"""``entente doctor``, ``bench`` and ``buffer``; ``drill`` and ``monitoring`` join them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.monitoring import EXAMPLES, monitoring
from cluster.cli.options import Overrides, Run
from cluster.drill.cli import drill
from grpo_core.errors import one_line

commands = typer.Typer()
buffer = typer.Typer(help="Look into the replay buffer.", no_args_is_help=True)
commands.command(epilog=EXAMPLES)(monitoring)
commands.command(
    epilog="Examples: `entente drill --json drill.json`, `entente drill --faults 4 --only learner --only server`"
)(drill)


@commands.command(epilog="Examples: `entente doctor laptop`; `entente doctor --run runs/demo`, also while it trains")
def doctor(
    config: Annotated[str | None, typer.Argument(help="Also check the needs of this config.")] = None,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option(help="Check the run in this folder instead.")] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder of the planned run, as for entente train.")] = None,
) -> None:
    """Check this machine and the needs of a config, or a run's health; every fault comes with a remedy."""
    if run is not None and config is None and run_dir is None:
        from cluster.diagnostics.run_health import examine_run

        findings = examine_run(run)
    elif run is not None:
        raise typer.BadParameter("--run checks a run, a config and --run-dir check a planned one: name one of them")
    else:
        from cluster.configs.loader import load_config

        planned = load_config(config, overrides or ()) if config else None
        from cluster.diagnostics.doctor import examine  # slow to import; a wrong config needs none of it

        findings = examine(planned, run_dir)
    marks = {"ok": "ok  ", "warn": "warn", "fault": "FAIL"}
    for finding in findings:
        typer.echo(f"{marks[finding.level]}  {finding.subject}: {one_line(finding.text, 450)}")
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(2)


@commands.command(epilog="Examples: `entente bench`; `entente bench --only learner,engine --json bench.json`")
def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Repeatable; of: game_loop, bots, playouts, evaluation, press, engine, vllm, learner, head, trl_step, "
            "learner_memory, gpu, replay, load, weights, broadcast; overlap and trl_training, which train for minutes "
            "a round, are measured only when they are named.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Alternating rounds of each measurement; the median counts.")
    ] = 3,
    json_out: Annotated[Path, typer.Option("--json", help="Where the figures go as JSON.")] = Path("bench.json"),
) -> None:
    """Measure every figure beside its yardstick, in the same run."""
    from cluster.bench.suite import run_suite

    run_suite(only or (), rounds, json_out)


@buffer.command("inspect", epilog="Example: `entente buffer inspect runs/demo`")
def inspect(run: Run) -> None:
    """Print how much of a run's replay buffer waits, is delivered, acknowledged or set aside."""
    from contextlib import closing, nullcontext

    from cluster.runs.folder import RunFolder

    folder = RunFolder(run)
    config = folder.stored_config()
    # Slow to import; a wrong folder needs none of it.
    from cluster.runtime.replay.clients import replay_buffer
    from cluster.runtime.replay.servers import replay_servers, running_urls

    live = () if config.redis.external else running_urls(config.redis, folder.redis)
    with (
        # The embedded servers of a stopped run are started for this, and stopped again.
        nullcontext(live) if live else replay_servers(config.redis, folder.redis) as urls,
        closing(replay_buffer(config.redis, urls, config.world.roles, folder.run_id)) as store,
    ):
        for name, value in store.stats().items():
            typer.echo(f"{name:<24} {value:,.0f}")
