"""The saved games of a run's last evaluations: a page for each, and the table that links to them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from services.reports.game_viewer.press import TellPress
from services.reports.run_report.data import RunData
from services.reports.run_report.games.drawing import AddBar, GamePage, advance_of, draw_page
from services.reports.run_report.games.kept import KeptGame, game_files, has_games
from services.reports.run_report.table import scrolling

MOST_GAMES = 42  # pages of one report: seven countries against six opponents; drawing one takes up to a second
_CHECKSUM_SHOWN = 12  # digits


@dataclass(frozen=True, slots=True)
class SavedGame:
    """One saved game of a run."""

    power: str  # the evaluated policy's
    label: str  # of the evaluation: "trained"
    against: str
    page: GamePage


def show_games(run: RunData, add_bar: AddBar | None = None, tell_press: TellPress | None = None) -> list[SavedGame]:
    """Write the pages of the games that the last evaluation against each opponent saved, at most ``MOST_GAMES``.

    Only games of the powers of the map can be shown. A file that is no saved game is listed with the reason. Raises
    ``StorageError`` if a page cannot be written.
    """
    if not has_games(run):
        return []
    last = {str(row["against"]): str(row.get("label", "")) for row in run.course}
    saved = ((path, label, against) for against, label in last.items() for path in game_files(run, label, against))
    games = list(islice(saved, MOST_GAMES))
    advance = advance_of(add_bar, "pages of saved games", len(games))
    found = []
    for game in games:
        found.append(_show(*game, run.folder, tell_press))
        advance(1)
    return found


def page_of(game: KeptGame, shown: Sequence[SavedGame], run_dir: Path, tell_press: TellPress | None = None) -> str:
    """Return the link to a game's page, which is made unless it is among ``shown``; "" for a damaged file."""
    for each in shown:
        if (each.power, each.label, each.against) == (game.power, game.label, game.against):
            return each.page.link
    return _show(game.path, game.label, game.against, run_dir, tell_press).page.link


def _show(path: Path, label: str, against: str, run_dir: Path, tell_press: TellPress | None) -> SavedGame:
    return SavedGame(path.stem, label, against, draw_page(path, run_dir, tell_press))


def games_table(games: Sequence[SavedGame]) -> str:
    """Return the table of games with links to their pages; empty without games."""
    if not games:
        return ""
    head = ("game", "centres", "player", "version", "SHA-256", "the other six", "seed", "commit")
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(f"<tr>{_row(game)}</tr>" for game in games)
    note = (
        "One game of each country from the last evaluation against each opponent, phase by phase on its own page. "
        "Each page names all seven players with their checksums."
    )
    table = scrolling(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>", "Games")
    return f'<section id="games"><h2>Games</h2><p class="soft">{note}</p>{table}</section>'


def _row(game: SavedGame) -> str:
    name = html.escape(f"{game.power.capitalize()} against {game.against}")
    shown, power = game.page.shown, game.power
    if shown is None:
        return f'<td>{name}</td><td colspan="7">{html.escape(game.page.problem)}</td>'
    origin = shown.origin
    cells = [f'<a href="{html.escape(game.page.link)}">{name}</a>', str(shown.centers.get(power, ""))]
    if origin.note:
        return f'{_cells(cells)}<td colspan="6">{html.escape(origin.note)}</td>'
    seat, facts = origin.seats.get(power), dict(origin.facts)
    others = dict.fromkeys(each.player for country, each in origin.seats.items() if country != power)
    texts = [
        *((seat.player, seat.version, seat.checksum[:_CHECKSUM_SHOWN]) if seat else ("", "", "")),
        ", ".join(others),
        facts.get("seed", ""),
        facts.get("commit", ""),
    ]
    return _cells([*cells, *map(html.escape, texts)])


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"<td>{cell}</td>" for cell in cells)
