"""``entente groups``: how a run grouped its samples, and what each way of grouping does to the gradient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cluster.api.arguments import MOST_GAMES
from cluster.cli.options import Json, Run, check_output, seed_option, write_json

commands = typer.Typer(help="Look into how a run grouped its samples.", no_args_is_help=True)


@commands.command(epilog="Examples: `entente groups audit runs/demo --json audit.json`; `... --gradients`")
def audit(
    run: Run,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients",
            help="Also group the last batch in every way and measure its gradient's bias and noise; it says how long "
            "that takes.",
        ),
    ] = False,
    turns: Annotated[
        int, typer.Option(min=1, max=10**9, help="Most turns that --gradients takes gradients of, in whole blocks.")
    ] = 4000,
    json_out: Json = None,
) -> None:
    """Print how samples were grouped, the variance that every key would explain and, if asked, its gradient's noise."""
    from dataclasses import asdict

    from rich.console import Console

    from cluster.cli.groups.audit_tables import offer_gradients, show, show_gradients
    from cluster.diagnostics.groups_audit import audit_groups, read_records

    console = Console()
    records = read_records(run)
    groups = audit_groups(str(run), records)
    show(groups, console)
    found = None
    if not gradients:
        offer_gradients(records[-1], turns, console)
    else:
        from cluster.diagnostics.gradient_audit import NoGradientsError, audit_gradients
        from cluster.runs.progress_bars import progress_bars

        try:
            with progress_bars() as add_bar:
                found = audit_gradients(
                    run,
                    groups.best_undeclared,
                    add_bar,
                    max_turns=turns,
                    say=lambda text: typer.echo(text, err=True),
                )
            show_gradients(found, console)
        except NoGradientsError as error:
            console.print(f"gradients: left out: {error}", markup=False, highlight=False)
    write_json(json_out, {**asdict(groups), "gradients": found})


@commands.command(epilog="Example: `entente groups study runs/demo/checkpoints/10 --batches 48 --html study.html`")
def study(
    checkpoint: Annotated[
        Path, typer.Argument(help="Checkpoint or run folder of a partly trained policy, which plays.")
    ],
    batches: Annotated[int, typer.Option(min=4, max=MOST_GAMES, help="Independent batches of 112 episodes.")] = 24,
    seed: Annotated[int, seed_option("Seed of the positions and games.")] = 0,
    json_out: Annotated[Path, typer.Option("--json", callback=check_output, help="Where the figures go.")] = Path(
        "study.json"
    ),
    html: Annotated[Path, typer.Option(callback=check_output, help="Where the picture goes.")] = Path("study.html"),
) -> None:
    """Measure bias, noise, signs and effective samples of the policy gradient under each way of grouping.

    Plays one set of seven-power games (continuations of saved positions) with the run's own game length, rewards and
    discount, and groups the same turns in every way. About half a minute a batch of games to 1905.
    """
    from grpo_core.checkpoints.folders import latest_checkpoint
    from grpo_core.models.folder_files import check_files

    check_files(latest_checkpoint(checkpoint) or checkpoint)
    # Slow to import; a wrong folder needs none of it.
    from rich.console import Console

    from cluster.diagnostics.grouping_study import measure_grouping
    from cluster.diagnostics.grouping_study_page import show, write_study_page
    from cluster.runs.progress_bars import progress_bars

    with progress_bars() as add_bar:
        found = measure_grouping(checkpoint, batches, seed, add_bar)
    json_out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    show(found, Console())
    write_study_page(found, html)
    typer.echo(f"written to {json_out} and {html}")
