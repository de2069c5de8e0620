"""A saved game as a page: the engine's map phase by phase, orders with their results, decisions, centres over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from services.reports.colors import MAP_COLORS, country_styles
from services.reports.game_viewer.decisions import GameDecisions, RecordedDecision, read_decisions
from services.reports.game_viewer.frames import Film, make_film, read_saved_game
from services.reports.game_viewer.origin import Origin, read_origin
from services.reports.game_viewer.press import TellPress, short_name, told_press
from services.reports.page import ReportError, asset, page, write_page

SCRIPTS = ("board", "timeline", "decisions")  # that both pages of games use


@dataclass(frozen=True, slots=True)
class ShownGame:
    """What a page of a game shows, in short."""

    origin: Origin
    centers: Mapping[str, int]  # power -> supply centres at the end


@dataclass(frozen=True, slots=True)
class Replay:
    """A game ready for a page."""

    film: Film
    shown: ShownGame
    data: Mapping[str, Any]  # for the page's script


def write_viewer(saved_game: Path, out: Path, tell_press: TellPress | None = None) -> ShownGame:
    """Write the page of a saved game (``viewer_page``) with the decisions beside it; damaged ones become a note.

    Raises ``ReportError`` if it is not a saved game, ``StorageError`` if the page cannot be written.
    """
    decisions, note = decisions_beside(saved_game)
    replay = make_replay(
        read_saved_game(saved_game), decisions, note, tell_press=tell_press, name=short_name(saved_game)
    )
    text, shown = replay_page(replay), replay.shown
    write_page(out, text)
    return shown


def decisions_beside(saved_game: Path) -> tuple[GameDecisions | None, str]:
    """The decisions recorded beside a game, if any, and a line that says why a file with them is not shown."""
    try:
        return read_decisions(saved_game), ""
    except ReportError as error:
        return None, str(error)


def viewer_page(
    document: Mapping[str, Any],
    decisions: GameDecisions | None = None,
    note: str = "",
    *,
    tell_press: TellPress | None = None,
) -> tuple[str, ShownGame]:
    """Return an offline page of a saved game's document, and what it shows; raises ``ReportError`` in one line.

    ``note`` is shown where decisions would be. ``tell_press`` says what became of letters.
    """
    replay = make_replay(document, decisions, note, tell_press=tell_press)
    return replay_page(replay), replay.shown


def replay_page(replay: Replay) -> str:
    """Return an offline page of one game."""
    body = asset("game_viewer/game_viewer.html")
    scripts = [asset(f"game_viewer/{name}.js") for name in (*SCRIPTS, "game_viewer")]
    return page(replay.data["title"], body, styles=styles(), data=replay.data, scripts=scripts)


def styles() -> str:
    """Return the style sheets of a page of games."""
    return "".join(
        [
            asset("common.css"),
            country_styles(),
            asset("game_viewer/game_viewer.css"),
            asset("game_viewer/decisions.css"),
        ]
    )


def make_replay(
    document: Mapping[str, Any],
    decisions: GameDecisions | None = None,
    note: str = "",
    *,
    tell_press: TellPress | None = None,
    name: str = "the game",
) -> Replay:
    """Draw a saved game's document; raises ``ReportError`` for other documents.

    Decisions that do not belong to the game are left out, and the note says so.
    """
    film = make_film(document)
    origin = read_origin(document, film.powers)
    last = film.frames[-1]
    leader = max(film.powers, key=lambda power: last.centers[power])
    ending = film.note or f"{leader.capitalize()} ends with {last.centers[leader]} centres"
    shown, left_out = _fitting(film, decisions)
    press, press_note = told_press(document, tell_press, name)
    if left_out:
        note = " ".join(filter(None, [note, f"{left_out} recorded decisions belong to another game and are left out."]))
    elif decisions is not None and decisions.made != "played":
        note = " ".join(filter(None, [note, f"Asked after the game: what {decisions.made} thinks of these orders."]))
    data = {
        "title": f"Game {film.game_id}" if film.game_id else "A game of Diplomacy",
        "subtitle": f"{len(film.frames)} phases. {ending}.",
        "powers": film.powers,
        "colors": MAP_COLORS,
        "seats": {power: asdict(seat) for power, seat in origin.seats.items()},
        "originFacts": origin.facts,
        "originNote": origin.note,
        "map": film.map_svg,
        "frames": [asdict(frame) for frame in film.frames],
        "decisions": shown,
        "decisionsNote": note,
        "press": press,
        "pressNote": press_note,
        "lines": () if decisions is None else decisions.lines,
    }
    return Replay(film, ShownGame(origin, last.centers), data)


def _fitting(film: Film, decisions: GameDecisions | None) -> tuple[dict[str, dict[str, Any]], int]:
    """The decisions by phase and power as JSON data, and how many are not of this game."""
    if decisions is None:
        return {}, 0
    orders = {frame.phase: frame.orders for frame in film.frames}
    by_phase: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for each in decisions.decisions:
        given = orders.get(each.phase, {}).get(each.power)
        if given is not None and _is_of(each, {order for order, _ in given}):
            by_phase[each.phase][each.power] = msgspec.to_builtins(each)
    kept = sum(map(len, by_phase.values()))
    return dict(by_phase), len(decisions.decisions) - kept


def _is_of(decision: RecordedDecision, orders: set[str]) -> bool:
    """Whether a decision chose these orders; units that hold and builds that are waived may be left out of a game."""
    return not decision.choices or orders <= {choice.chosen for choice in decision.choices}
