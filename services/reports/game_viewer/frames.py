"""A saved game as frames: one shared map, and the engine's drawing of each phase on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.dom import minidom

from grpo_core.errors import one_line
from grpo_core.files import read_json
from services.reports.page import ReportError

_LAYERS = ("OrderLayer", "UnitLayer", "DislodgedUnitLayer", "HighestOrderLayer")
_DRAWN = (*_LAYERS, "MapLayer")
_MAP = re.compile(r"[a-z0-9_]{1,40}")  # the engine would read any file that a name leads to
_MOST_PHASES = 1000  # ninety-nine years have fewer
_MOST_ENTRIES = 81  # provinces and coasts of the map; no power has more units or orders
_CAPTIONS = ("currentnotetext", "currentnoterect", "currentphasetext")  # the map's own; the page has others


@dataclass(frozen=True, slots=True)
class Frame:
    """One phase."""

    phase: str  # "S1901M"
    layers: Mapping[str, str]  # layer id -> its SVG: units and orders before the phase is adjudicated
    owners: Mapping[str, tuple[str, ...]]  # power -> ids of its province elements on the map
    centers: Mapping[str, int]  # power -> supply centres
    units: Mapping[str, int]  # power -> units without dislodged ones
    orders: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]  # power -> (order, results); no results: it succeeded
    messages: tuple[tuple[str, str, str], ...]  # sender, recipient, text


@dataclass(frozen=True, slots=True)
class Film:
    """A whole game."""

    game_id: str
    note: str  # the engine's, e.g. "Victory by: FRANCE"
    powers: tuple[str, ...]
    map_svg: str  # without units, orders and owners
    frames: tuple[Frame, ...]


def read_saved_game(path: Path) -> Mapping[str, Any]:
    """Return the document of a saved game; raises ``ReportError`` if it cannot be read or has no phases."""
    try:
        document = read_json(path)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ReportError(f"{path} is not a saved game: it is not one JSON document") from error
    if not (isinstance(document, dict) and isinstance(document.get("phases"), list) and document["phases"]):
        raise ReportError(f"{path} is not a saved game: it has no list of phases")
    if len(document["phases"]) > _MOST_PHASES:
        raise ReportError(f"{path} is not a saved game: no game has more than {_MOST_PHASES} phases")
    return document


def make_film(document: Mapping[str, Any]) -> Film:
    """Draw every phase with the engine, 10 to 30 ms each; raises ``ReportError`` for other documents than games."""
    from diplomacy import Game  # slow to import; a file that is no game needs none of it

    try:
        phases, map_name = document["phases"], str(document.get("map", "standard"))
        if not _MAP.fullmatch(map_name):
            raise ValueError(f"{one_line(repr(map_name), 80)} is no map of the engine")
        game = Game(map_name=map_name)
        game.render()
        game.renderer.xml_map = _light(game.renderer.xml_map)
        powers = tuple(sorted(game.powers))
        return Film(
            game_id=str(document.get("id", "")),
            note=str(phases[-1]["state"].get("note") or ""),
            powers=powers,
            map_svg=bare_map(map_name),
            frames=tuple(_frame(game, powers, phase) for phase in phases),
        )
    except Exception as error:  # the engine checks little, so that any kind may come of a file
        raise ReportError(f"this is not a saved game: {one_line(f'{type(error).__name__}: {error}', 200)}") from error


def _frame(game: Any, powers: tuple[str, ...], phase: Mapping[str, Any]) -> Frame:
    state, recorded = phase["state"], phase.get("orders") or {}
    for table in (recorded, *state.values()):  # by power; the engine is slow to read long lists
        if isinstance(table, dict) and any(
            isinstance(each, list) and len(each) > _MOST_ENTRIES for each in table.values()
        ):
            raise ValueError(f"a list in it has more than {_MOST_ENTRIES} entries")
    game.set_state(state)
    for power in powers:
        if recorded.get(power):
            game.set_orders(power, list(recorded[power]))
    drawing = _parse(game.render())
    results = phase.get("results") or {}
    return Frame(
        phase=str(phase["name"]),
        layers={name: "".join(node.toxml() for node in _by_id(drawing, name).childNodes).strip() for name in _LAYERS},
        owners=_owners(drawing, powers),
        centers={power: len(state["centers"].get(power, ())) for power in powers},
        units={power: sum(not unit.startswith("*") for unit in state["units"].get(power, ())) for power in powers},
        orders={
            power: tuple((order, _results(order, results)) for order in recorded.get(power) or ()) for power in powers
        },
        messages=tuple(
            (str(message["sender"]), str(message["recipient"]), str(message["message"]))
            for message in phase.get("messages") or ()
        ),
    )


def _results(order: str, results: Mapping[str, Any]) -> tuple[str, ...]:
    unit = " ".join(order.split()[:2])
    return tuple(str(result) for result in results.get(unit, ()) if result)


@cache
def bare_map(map_name: str) -> str:
    """Return the engine's drawing of a map without units, orders, owners and captions."""
    from diplomacy import Game  # slow to import

    game = Game(map_name=map_name)
    game.clear_units()
    game.clear_centers()
    for power in game.powers.values():
        power.influence = []
    drawing = _parse(game.render(incl_orders=False, incl_abbrev=True))
    svg = drawing.documentElement
    for node in list(svg.childNodes):
        if node.nodeType == node.COMMENT_NODE or (
            node.nodeType == node.ELEMENT_NODE and node.getAttribute("class") in _CAPTIONS
        ):
            svg.removeChild(node)
    # The page sets its size.
    svg.removeAttribute("width")
    svg.removeAttribute("height")
    return str(svg.toxml())


@cache
def _light(map_xml: str) -> str:
    """Return the renderer's map without outlines, symbols and labels: the same drawing with less to parse."""
    drawing = _parse(map_xml)
    for layer in list(drawing.documentElement.childNodes):
        if layer.nodeType != layer.ELEMENT_NODE or layer.tagName == "text" or layer.getAttribute("id") in _DRAWN:
            continue
        while layer.firstChild:
            layer.removeChild(layer.firstChild)
    for node in (*drawing.getElementsByTagName("path"), *drawing.getElementsByTagName("polygon")):
        for outline in ("d", "points"):
            if node.hasAttribute(outline):
                node.removeAttribute(outline)
    return str(drawing.toxml())


def _owners(drawing: Any, powers: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    owned: dict[str, list[str]] = {power: [] for power in powers}
    for province in _by_id(drawing, "MapLayer").childNodes:
        if province.nodeType != province.ELEMENT_NODE or not province.getAttribute("id"):
            continue
        shapes = [province, *(node for node in province.childNodes if node.nodeType == node.ELEMENT_NODE)]
        classes = {shape.getAttribute("class").upper() for shape in shapes}
        for power in classes & owned.keys():
            owned[power].append(province.getAttribute("id"))
    return {power: tuple(ids) for power, ids in owned.items()}


def _parse(svg: str) -> Any:
    return minidom.parseString(svg)  # noqa: S318 -- the engine wrote it


def _by_id(drawing: Any, name: str) -> Any:
    return next(node for node in drawing.getElementsByTagName("g") if node.getAttribute("id") == name)
