"""``entente conduct``: how players treated one another in saved games."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli.options import JsonOrStdout, write_json
from cluster.cli.press.saved_games import saved_files

if TYPE_CHECKING:
    from grpo_core.statistics.estimate import Estimate
    from services.environments.diplomacy.measures.press.alliances import Alliance
    from services.environments.diplomacy.measures.press.conduct import ConductRates

commands = typer.Typer()
_MOST_ALLIANCES = 10  # in the table; the JSON has all
_COLUMNS = (
    ("honesty", "promises kept"),
    ("support_rate", "supports"),
    ("effective_support_rate", "effective ones"),
    ("attack_rate", "attacks"),
)


@commands.command(
    epilog="Examples: `entente conduct games/press`, `entente conduct game.json other.json --json conduct.json`"
)
def conduct(
    games: Annotated[
        list[Path], typer.Argument(metavar="GAME|FOLDER", help="Saved games, or folders of them (*.json).")
    ],
    json_out: JsonOrStdout = None,
) -> None:
    """How players treated one another in saved games: promises kept and broken, supports and attacks.

    Promises are what letters agree on: peace, alliances, demilitarised provinces and orders; those count that some
    legal order would have broken. Supports and attacks are for each movement phase in which both had a unit; effective
    supports are those without which something else had happened. Games without a record of their players are counted
    by power. Alliances are the largest groups of powers of which each two help one another or keep their peace, by the
    share of years at whose end they stood. Intervals of 95 % hold between games.
    """
    from cluster.cli.options import STDOUT
    from cluster.runs.progress_bars import progress_bars
    from services.environments.diplomacy.measures.press.alliances import alliance_shares, alliances_by_year, called
    from services.environments.diplomacy.measures.press.conduct import conduct_rates, saved_conduct
    from services.environments.diplomacy.saved_game import read_saved_game

    files = list(saved_files(games))
    found, years = [], []
    with progress_bars() as add_bar:
        advance = add_bar("reading saved games", len(files))
        for file in files:
            document = read_saved_game(file)
            found.append(saved_conduct(document, str(file)))
            years.append(alliances_by_year(document, str(file)))
            advance(1)
    rates, shares = conduct_rates(found), alliance_shares(years)
    if json_out != STDOUT:
        _show(rates, len(files))
        _show_alliances(shares)
    rows = [
        {"player": player, "other": other, "games": each.games, **_row(each)} for (player, other), each in rates.items()
    ]
    allied = [
        {"alliance": called(powers), "powers": powers, "share": share.mean, "share_ci95": share.interval}
        for powers, share in shares.items()
    ]
    write_json(json_out, {"games": len(files), "conduct": rows, "alliances": allied})


def _row(rates: ConductRates) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, _ in _COLUMNS:
        estimate: Estimate | None = getattr(rates, name)
        row[name] = None if estimate is None else estimate.mean
        row[f"{name}_ci95"] = None if estimate is None or estimate.interval is None else list(estimate.interval)
    return row


def _show(rates: dict[tuple[str, str], ConductRates], games: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Conduct in {games} game{'s' if games != 1 else ''}", title_justify="left")
    for name in ("player", "to", "games", *(title for _, title in _COLUMNS)):
        table.add_column(name, justify="left" if name in ("player", "to") else "right")
    for (player, other), each in rates.items():
        shown = [_percent(each.honesty), *(_rate(getattr(each, name)) for name, _ in _COLUMNS[1:])]
        table.add_row(player, other, str(each.games), *shown)
    Console().print(table)


def _show_alliances(shares: dict[Alliance, Estimate]) -> None:
    from rich.console import Console
    from rich.table import Table

    from services.environments.diplomacy.measures.press.alliances import called

    table = Table(title="Alliances", title_justify="left")
    table.add_column("alliance")
    table.add_column("powers")
    table.add_column("years", justify="right")
    for powers, share in list(shares.items())[:_MOST_ALLIANCES]:
        table.add_row(called(powers), ", ".join(power.title() for power in powers), _percent(share))
    if shares:
        Console().print(table)


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    interval = "" if estimate.interval is None else f" [{estimate.interval[0]:.0%}, {estimate.interval[1]:.0%}]"
    return f"{estimate.mean:.0%}{interval}"


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    interval = "" if estimate.interval is None else f" [{estimate.interval[0]:.2f}, {estimate.interval[1]:.2f}]"
    return f"{estimate.mean:.2f}{interval}"
