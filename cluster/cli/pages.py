"""``entente report`` and ``entente explore``: pages of runs and games."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import check_output

commands = typer.Typer()


@commands.command(
    epilog="Example: `entente report runs/demo` or `entente report runs/demo/games/trained-random/FRANCE.json`"
)
def report(what: Annotated[Path, typer.Argument(help="A run's folder, or a saved game.")]) -> None:
    """Write a run's report.html again, or the page of a saved game beside it and print who played."""
    if what.suffix == ".json":
        from services.environments.registry import DEFAULT_WORLD, load_world
        from services.reports.game_viewer.game_viewer import write_viewer

        page = what.with_suffix(".html")
        for line in write_viewer(what, page, load_world(DEFAULT_WORLD).press_story).origin.lines():
            typer.echo(line)
    else:
        from cluster.api.run import Run as RunOnDisk

        page = RunOnDisk(what).report(progress=True)
    typer.echo(f"written to {page}")


@commands.command(
    epilog="Examples: `entente explore runs/demo`, also while it trains; `entente explore demo --out page.html`, a run "
    "that comes with the package; `entente explore DIR` of `entente compare study --out DIR`"
)
def explore(
    what: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, a comparison's, or: demo.")],
    out: Annotated[
        Path | None, typer.Option(help="The page.", callback=check_output, show_default="RUN/explore.html")
    ] = None,
) -> None:
    """Write one offline page in which you see what grouping did: groups, advantages, formulas, token by token.

    It computes everything again in the browser, so that you can try other groups, weights and losses on the run's own
    updates. Runs keep what it needs in traces/ (see metrics.traced_tokens).
    """
    from cluster.explore.page import write_explorer
    from cluster.runs.progress_bars import progress_bars

    with progress_bars() as add_bar:
        page = write_explorer(what, out, add_bar)
    typer.echo(f"written to {page} ({page.stat().st_size / 1e6:.1f} MB)")
