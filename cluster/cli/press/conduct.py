"""``entente conduct``: how players treated one another in saved games."""

from __future__ import annotations

from collections.abc import Mapping
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
_MOST_YEARS = 8  # columns of the table; the JSON has all
_COLUMNS = (
    ("honesty", "promises kept"),
    ("support_rate", "supports"),
    ("effective_support_rate", "effective ones"),
    ("attack_rate", "attacks"),
)


@commands.command(
    epilog="Examples: `entente conduct games/press --by-year`, `entente conduct game.json other.json --json rows.json`"
)
def conduct(
    games: Annotated[
        list[Path], typer.Argument(metavar="GAME|FOLDER", help="Saved games, or folders of them (*.json).")
    ],
    by_year: Annotated[
        bool,
        typer.Option(
            "--by-year",
            help="Also the share of promises kept from a game's beginning to the end of each year; a game that is over "
            "keeps its count.",
        ),
    ] = False,
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
    from services.environments.diplomacy.measures.press.conduct import (
        conduct_rates,
        honesty_by_year,
        saved_years,
        until_end,
    )
    from services.environments.diplomacy.saved_game import read_saved_game

    files = list(saved_files(games))
    found, years = [], []
    with progress_bars() as add_bar:
        advance = add_bar("reading saved games", len(files))
        for file in files:
            document = read_saved_game(file)
            found.append(saved_years(document, str(file)))
            years.append(alliances_by_year(document, str(file)))
            advance(1)
    rates, shares = conduct_rates((players, until_end(each)) for players, each in found), alliance_shares(years)
    trust = honesty_by_year(found) if by_year else {}
    if json_out != STDOUT:
        _show(rates, len(files))
        if by_year:
            _show_trust(trust)
        _show_alliances(shares)
    rows = [
        {"player": player, "other": other, "games": each.games, **_row(each)} for (player, other), each in rates.items()
    ]
    allied = [
        {"alliance": called(powers), "powers": powers, "share": share.mean, "share_ci95": share.interval}
        for powers, share in shares.items()
    ]
    document = {"games": len(files), "conduct": rows, "alliances": allied}
    write_json(json_out, {**document, "by_year": _trust_rows(trust)} if by_year else document)


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


def _trust_rows(trust: Mapping[int, Mapping[tuple[str, str], Estimate]]) -> list[dict[str, Any]]:
    return [
        {"year": year, "player": player, "other": other, "honesty": share.mean, "honesty_ci95": share.interval}
        for year, pairs in trust.items()
        for (player, other), share in pairs.items()
    ]


def _show_trust(trust: Mapping[int, Mapping[tuple[str, str], Estimate]]) -> None:
    from rich.console import Console
    from rich.table import Table

    years = list(trust)
    step = -(-len(years) // _MOST_YEARS) or 1
    shown = years[::-1][::step][::-1]  # the last one is among them
    table = Table(title="Promises kept by the end of each year", title_justify="left")
    for name in ("player", "to", *map(str, shown)):
        table.add_column(name, justify="left" if name in ("player", "to") else "right")
    for pair in sorted({pair for year in years for pair in trust[year]}):
        known = (trust[year].get(pair) for year in shown)
        table.add_row(*pair, *("-" if share is None else f"{share.mean:.0%}" for share in known))
    if years:
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
    interval = "" if estimate.interval is None else f" [{estimate.interval[0]:.3f}, {estimate.interval[1]:.3f}]"
    return f"{estimate.mean:.3f}{interval}"
