"""A saved game as a page: the engine's map phase by phase, orders with their results, centres over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from services.reports.colors import LINE_COLORS, MAP_COLORS
from services.reports.game_viewer.frames import Film, make_film, read_saved_game
from services.reports.page import asset, page, write_page

Defects = Mapping[str, Mapping[str, Sequence[str]]]  # phase -> power -> defects of its orders


def write_viewer(
    saved_game: Path | Mapping[str, Any],
    out: Path,
    *,
    seats: Mapping[str, str] | None = None,
    defects: Defects | None = None,
) -> Path:
    """Write a self-contained page that shows a game; it works offline.

    The game is in the engine's saved-game format. ``seats`` are the players by power, ``defects`` those of orders that
    were not used, by phase and power.

    Raises:
        ReportError: not a saved game, or the page cannot be written; the message is one line.
    """
    film = make_film(read_saved_game(saved_game))
    title = f"Game {film.game_id}" if film.game_id else "A game of Diplomacy"
    data = {
        "title": title,
        "subtitle": _subtitle(film),
        "powers": film.powers,
        "colors": MAP_COLORS,
        "lineColors": LINE_COLORS,
        "seats": dict(seats or {}),
        "defects": {phase: dict(powers) for phase, powers in (defects or {}).items()},
        "map": film.map_svg,
        "frames": [asdict(frame) for frame in film.frames],
    }
    body, script = asset("game_viewer/game_viewer.html"), asset("game_viewer/game_viewer.js")
    styles = asset("common.css") + asset("game_viewer/game_viewer.css")
    return write_page(out, page(title, body, styles=styles, data=data, scripts=[script]))


def _subtitle(film: Film) -> str:
    last = film.frames[-1]
    leader = max(film.powers, key=lambda power: last.centers[power])
    ending = film.note or f"{leader.capitalize()} ends with {last.centers[leader]} centres"
    return f"{len(film.frames)} phases. {ending}."
