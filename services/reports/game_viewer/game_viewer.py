"""A saved game as a page: the engine's map phase by phase, orders with their results, centres over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from services.reports.colors import LINE_COLORS, MAP_COLORS
from services.reports.game_viewer.frames import make_film, read_saved_game
from services.reports.page import asset, page, write_page


def write_viewer(saved_game: Path, out: Path, seats: Mapping[str, str] | None = None) -> Path:
    """Write an offline page of a saved game; ``seats`` are its players by power. Raises ``ReportError`` in one line."""
    film = make_film(read_saved_game(saved_game))
    last = film.frames[-1]
    leader = max(film.powers, key=lambda power: last.centers[power])
    ending = film.note or f"{leader.capitalize()} ends with {last.centers[leader]} centres"
    title = f"Game {film.game_id}" if film.game_id else "A game of Diplomacy"
    data = {
        "title": title,
        "subtitle": f"{len(film.frames)} phases. {ending}.",
        "powers": film.powers,
        "colors": MAP_COLORS,
        "lineColors": LINE_COLORS,
        "seats": dict(seats or {}),
        "map": film.map_svg,
        "frames": [asdict(frame) for frame in film.frames],
    }
    body, script = asset("game_viewer/game_viewer.html"), asset("game_viewer/game_viewer.js")
    styles = asset("common.css") + asset("game_viewer/game_viewer.css")
    return write_page(out, page(title, body, styles=styles, data=data, scripts=[script]))
