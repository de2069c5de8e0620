"""The engine's map as data, for a page that draws units and orders itself."""

from __future__ import annotations

from typing import Any
from xml.dom import minidom

from services.reports.game_viewer.frames import bare_map

# The names of seas in the drawing that are others in orders.
_HALF_SYMBOL = 20.0  # a unit's recorded place is the corner of its symbol
_DRAWN_AS = {"GOL": "LYO", "MID": "MAO", "NAT": "NAO", "NRG": "NWG", "TYN": "TYS"}


def board_data() -> dict[str, Any]:
    """The standard map: its drawing, and where things are on it.

    ``svg``: the drawing without units, orders, owners and style sheet; the id of a province's shape is "_" and its
    name there, see ``shapes``. ``places``: location (with a coast, if it has one) -> x and y of a unit there.
    ``names``: location -> full name. ``centers``: provinces with a supply centre.
    """
    from diplomacy import Game  # slow to import

    game = Game()
    game.render()  # reads the coordinates
    drawing: Any = minidom.parseString(bare_map("standard"))  # noqa: S318 -- the engine wrote it
    for style in drawing.getElementsByTagName("style"):
        style.parentNode.removeChild(style)
    board, coordinates = game.map, game.renderer.metadata["coord"]
    locations = sorted(place.upper() for place in board.locs if place.upper() in coordinates)
    full = {code: name.title() for name, code in board.loc_name.items()}
    provinces = {place[:3] for place in locations}
    drawn_as = {name: drawn for drawn, name in _DRAWN_AS.items()}
    return {
        "svg": drawing.documentElement.toxml(),
        "shapes": {province: f"_{drawn_as.get(province, province).lower()}" for province in sorted(provinces)},
        "places": {
            place: [float(number) + _HALF_SYMBOL for number in coordinates[place]["unit"]] for place in locations
        },
        "names": {place: full.get(place, place) for place in locations},
        "centers": sorted(board.scs),
    }
