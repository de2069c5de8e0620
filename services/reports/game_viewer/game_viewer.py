"""A saved game as a page: the engine's map phase by phase, orders with their results, centres over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from services.reports.colors import MAP_COLORS, country_styles
from services.reports.game_viewer.frames import make_film, read_saved_game
from services.reports.game_viewer.origin import Origin, read_origin
from services.reports.page import asset, page, write_page


@dataclass(frozen=True, slots=True)
class ShownGame:
    """What a page of a game shows, in short."""

    origin: Origin
    centers: Mapping[str, int]  # power -> supply centres at the end


def write_viewer(saved_game: Path, out: Path) -> ShownGame:
    """Write the page of a saved game (``viewer_page``).

    Raises ``ReportError`` if it is not a saved game, ``StorageError`` if the page cannot be written.
    """
    text, shown = viewer_page(read_saved_game(saved_game))
    write_page(out, text)
    return shown


def viewer_page(document: Mapping[str, Any]) -> tuple[str, ShownGame]:
    """Return an offline page of a saved game's document, and what it shows; raises ``ReportError`` in one line."""
    film = make_film(document)
    origin = read_origin(document, film.powers)
    last = film.frames[-1]
    leader = max(film.powers, key=lambda power: last.centers[power])
    ending = film.note or f"{leader.capitalize()} ends with {last.centers[leader]} centres"
    title = f"Game {film.game_id}" if film.game_id else "A game of Diplomacy"
    data = {
        "title": title,
        "subtitle": f"{len(film.frames)} phases. {ending}.",
        "powers": film.powers,
        "colors": MAP_COLORS,
        "seats": {power: asdict(seat) for power, seat in origin.seats.items()},
        "originFacts": origin.facts,
        "originNote": origin.note,
        "map": film.map_svg,
        "frames": [asdict(frame) for frame in film.frames],
    }
    body, script = asset("game_viewer/game_viewer.html"), asset("game_viewer/game_viewer.js")
    styles = asset("common.css") + country_styles() + asset("game_viewer/game_viewer.css")
    return page(title, body, styles=styles, data=data, scripts=[script]), ShownGame(origin, last.centers)
