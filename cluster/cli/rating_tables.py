"""Ratings on a terminal, from 80 columns, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from opponents.ratings.book import Rating, RatingBook
from services.environments.diplomacy.position import POWERS


def show_ratings(book: RatingBook, players: Iterable[str], console: Console) -> None:
    """Print players, the strongest first: over all countries, and as each of them beside what it is worth."""
    ordered = _by_strength(book, players)
    overall = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    by_country = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)  # seven of "1132±252" fit into 80 columns
    for table in (overall, by_country):
        table.add_column("player", overflow="fold", min_width=11)
    for name in ("points", "95 %", "games"):
        overall.add_column(name, justify="right")
    for power in POWERS:
        by_country.add_column(power[:3], justify="right")
    for player in ordered:
        rating, style = book.rating(player), "dim" if player in book.anchors else ""
        interval = "fixed" if player in book.anchors else "{:.0f} to {:.0f}".format(*rating.interval)
        overall.add_row(player, f"{rating.mu:.0f}", interval, str(rating.games), style=style)
        by_country.add_row(player, *(_text(book.rating(player, power)) for power in POWERS), style=style)
    by_country.add_section()
    by_country.add_row("its worth", *(_text(book.country(power), sign="+") for power in POWERS))
    console.print(overall)
    console.print(by_country)
    console.print(
        "400 points: odds of ten to one to finish above; ±: half of the 95 % interval",
        style="dim",
        highlight=False,
    )


def ratings_as_json(book: RatingBook, players: Iterable[str]) -> str:
    """The same as JSON, the strongest first."""
    document = {
        "players": [
            {
                "id": player,
                "anchor": player in book.anchors,
                **_facts(book.rating(player)),
                "by_country": {power: _facts(book.rating(player, power)) for power in POWERS},
            }
            for player in _by_strength(book, players)
        ],
        "countries": {power: _facts(book.country(power)) for power in POWERS},
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _by_strength(book: RatingBook, players: Iterable[str]) -> list[str]:
    return sorted(players, key=lambda player: (-book.rating(player).mu, player))


def _text(rating: Rating, sign: str = "") -> str:
    if rating.sigma == 0:
        return f"{rating.mu:{sign}.0f}"
    return f"{rating.mu:{sign}.0f}±{1.96 * rating.sigma:.0f}"


def _facts(rating: Rating) -> dict[str, Any]:
    return {"mu": rating.mu, "sigma": rating.sigma, "interval95": list(rating.interval), "games": rating.games}
