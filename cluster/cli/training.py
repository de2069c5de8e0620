"""``entente train`` and ``entente imitate``."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import Overrides
from cluster.cli.output import say
from cluster.configs.shipped import shipped_configs
from cluster.errors import INTERRUPTED

commands = typer.Typer()


def _epilog() -> str:
    listed = [f"- **{name}**: {comment}" for name, comment in shipped_configs().items()]
    example = "Example: `entente train laptop --set learner.learning_rate=1e-4 --run-dir runs/first`"
    return "\n\n".join(["Shipped configs:", "", *listed, "", example])


@commands.command(epilog=_epilog())
def train(
    config: Annotated[
        str | None,
        typer.Argument(help="A TOML file, or the name of a shipped config; see below. Not needed with --resume."),
    ] = None,
    overrides: Overrides = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder of the run.", show_default="runs/<run.name>")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --run-dir.")] = False,
    start_or_resume: Annotated[
        bool,
        typer.Option(
            "--start-or-resume",
            help="Continue the run in --run-dir if there is one, else start it: for a job that is submitted again "
            "with the same command. CONFIG and --set count in both cases.",
        ),
    ] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="List every config key with its default, and stop; those of CONFIG's world, if CONFIG is given.",
        ),
    ] = False,
) -> None:
    """Train a policy on whole games, from a config."""
    if keys:
        from cluster.configs.loader import load_config
        from cluster.configs.reference import config_reference
        from cluster.configs.schema import Config

        typer.echo(config_reference(type(load_config(config, overrides or ())) if config else Config))
        return
    from cluster.runtime.stop_signals import shielded, stop_at_signals

    stop_at_signals()
    with shielded():  # libraries start threads
        from cluster.runs.run_request import requested_run

    request = requested_run(config, overrides or (), run_dir, resume=resume, start_or_resume=start_or_resume)
    with shielded():  # after the request, because a wrong one needs none of these
        from cluster.api.training import train_request
        from cluster.runs.folder import RunFolder

    try:
        train_request(request, say=say, warn=partial(say, err=True))
    except KeyboardInterrupt:
        if not RunFolder(request.run_dir).begun:
            say("stopped before there was anything to save; start it again", err=True)
        else:
            again = "the same command" if start_or_resume else f"entente train --resume --run-dir {request.run_dir}"
            say(f"stopped; continue with: {again}", err=True)
        sys.exit(INTERRUPTED)
    say(f"done: {request.run_dir / 'summary.json'} and {request.run_dir / 'report.html'}")


@commands.command(
    epilog="Examples: `entente imitate --games 400 --out models/dumbbot`, then "
    "`entente train laptop --set policy.path=models/dumbbot --run-dir runs/imitated`"
)
def imitate(
    out: Annotated[Path, typer.Option(help="New folder for the policy, in Hugging Face layout.")],
    config: Annotated[
        str, typer.Argument(help="A TOML file, or a shipped config; its [policy] imitates as its [imitation] sets.")
    ] = "laptop",
    games: Annotated[
        int | None,
        typer.Option(
            min=0, max=10**6, help="Games of seven teachers to play and imitate.", show_default="the config's, or 400"
        ),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="The bot to imitate.", show_default="the config's, dumbbot")
    ] = None,
    saved_games: Annotated[
        Path | None, typer.Option(help="Folder of saved games (*.json) to imitate as well; with --games 0 instead.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Train a policy on games that bots play, or on saved games: a warm start for training, in minutes."""
    from cluster.configs.loader import load_config
    from cluster.runtime.stop_signals import stop_at_signals

    stop_at_signals()
    options = {"games": games, "teacher": teacher, "saved_games": None if saved_games is None else str(saved_games)}
    given = [f"imitation.{key}={json.dumps(value)}" for key, value in options.items() if value is not None]
    settings = load_config(config, [*given, *(overrides or ())])
    if games is None and not settings.imitation.games:
        settings = load_config(config, ["imitation.games=400", *given, *(overrides or ())])
    from cluster.imitation.launcher import imitate as imitate_games
    from cluster.runs.imitation_report import ImitationTask
    from cluster.runs.progress_bars import progress_bars

    if settings.policy.path is not None:
        from cluster.actors.initial_policy import check_policy

        check_policy(settings.policy, settings.inference, settings.world.language)
    with progress_bars() as add_bar:
        report = imitate_games(ImitationTask.of(settings), out, add_bar)
    typer.echo(
        f"{report.decisions:,} decisions of {report.games + report.saved_games} games: {report.nats_before:.3f} -> "
        f"{report.nats_after[-1]:.3f} nats a token in games not learned from; written to {out}"
    )
