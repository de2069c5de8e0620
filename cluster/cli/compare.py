"""``entente compare``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import comma_separated
from cluster.errors import RunError

commands = typer.Typer()


@commands.command(
    epilog="Examples: `entente compare smoke --out runs/smoke`; `entente compare study --out runs/study --tasks "
    "cartpole,leduc_poker --seeds 3`, and after a stop the same with --resume"
)
def compare(
    plan: Annotated[
        str, typer.Argument(metavar="smoke|study", help="smoke: minutes, to see that all works; study: hours.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for results.json, compare.html and what is done so far.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a comparison that was stopped.")] = False,
    methods: Annotated[str, typer.Option(help="Only these, comma-separated.", show_default="all")] = "",
    tasks: Annotated[str, typer.Option(help="Only these, comma-separated.", show_default="all")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each method on each task.", show_default="the plan's")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Runs at a time.", show_default="one for each core")
    ] = None,
) -> None:
    """Compare ways to learn: GRPO with several groupings, REINFORCE and PPO, RLlib's among them.

    Small networks learn control problems and games of OpenSpiel in equal numbers of steps, over several seeds. Tasks
    whose packages are not installed are left out, with a line that says so. What is done is kept: after a stop or a
    crash --resume runs the rest.
    """
    import os

    from cluster.comparison.plans import PLANS

    if plan not in PLANS:
        raise RunError(f"there is no comparison {plan!r}; it is one of {', '.join(PLANS)}")
    chosen = PLANS[plan].only(_names(methods), _names(tasks), seeds)
    from cluster.comparison.comparison import compare as run
    from cluster.comparison.document import write_results
    from cluster.runs.progress_bars import progress_bars

    with progress_bars() as add_bar:
        advances = []
        found = run(
            chosen, out, resume=resume, processes=processes or len(os.sched_getaffinity(0)),
            notice=lambda text: typer.echo(text, err=True),
            begin=lambda count: advances.append(add_bar(f"runs of {plan}", count)),
            advance=lambda done: advances[0](done),
        )  # fmt: skip
    for line in found.missing:
        typer.echo(f"left out: {line}", err=True)
    words = ["entente", "compare", plan, "--out", str(out)]
    for name, value in (("--methods", methods), ("--tasks", tasks), ("--seeds", seeds)):
        words += [name, str(value)] if value else []
    for line in write_results(found, out, shlex.join(words)):
        typer.echo(line)


def _names(text: str) -> tuple[str, ...]:
    # A name such as kuhn_poker(players=3) has no comma.
    return tuple(comma_separated(text)) if text else ()
