"""The saved games of a run's last evaluations: a page for each, and the table that links to them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.reports.page import ReportError
from services.reports.run_report.data import RunData
from services.reports.run_report.games.kept import KeptGame, game_files, has_games, last_centers
from services.reports.run_report.table import scrolling

if TYPE_CHECKING:
    from services.reports.game_viewer.game_viewer import ShownGame

MOST_GAMES = 42  # pages of one report: seven countries against six opponents; drawing one takes a second
_CHECKSUM_SHOWN = 12  # digits


@dataclass(frozen=True, slots=True)
class SavedGame:
    """One saved game of a run."""

    power: str  # the evaluated policy's
    label: str  # of the evaluation: "trained"
    against: str
    link: str  # the page's path relative to the report; of a damaged file, empty
    shown: ShownGame | None
    problem: str  # one line; empty unless the file is damaged


def show_games(run: RunData) -> list[SavedGame]:
    """Write the pages of the games that the last evaluation against each opponent saved, at most ``MOST_GAMES``.

    Only games of the powers of the map can be shown. A file that is no saved game is listed with the reason. Raises
    ``StorageError`` if a page cannot be written.
    """
    if not has_games(run):
        return []
    last = {str(row["against"]): str(row.get("label", "")) for row in run.evaluations}
    saved = ((path, label, against) for against, label in last.items() for path in game_files(run, label, against))
    return [_show(*found, run.folder) for found in islice(saved, MOST_GAMES)]


def page_of(game: KeptGame, shown: Sequence[SavedGame], run_dir: Path) -> str:
    """Return the link to a game's page, which is made unless it is among ``shown``; "" for a damaged file."""
    for each in shown:
        if (each.power, each.label, each.against) == (game.power, game.label, game.against):
            return each.link
    return _show(game.path, game.label, game.against, run_dir).link


def _show(path: Path, label: str, against: str, run_dir: Path) -> SavedGame:
    from services.reports.game_viewer.game_viewer import write_viewer

    page = path.with_suffix(".html")
    try:
        shown = _shown_before(path, page) or write_viewer(path, page)
    except ReportError as error:
        return SavedGame(path.stem, label, against, "", None, str(error))
    return SavedGame(path.stem, label, against, quote(page.relative_to(run_dir).as_posix()), shown, "")


def _shown_before(path: Path, page: Path) -> ShownGame | None:
    """What an earlier report's page of a game shows, if neither the game nor the code that draws it is newer.

    Drawing takes about 30 ms a phase, and a run may have dozens of games.
    """
    from services.reports.game_viewer.frames import read_saved_game
    from services.reports.game_viewer.game_viewer import ShownGame
    from services.reports.game_viewer.origin import read_origin

    sources = [each for each in path.parent.glob(f"{path.stem}.*") if each != page]  # records beside it, too
    code = Path(__file__).parents[2]
    sources += [*(code / "game_viewer").glob("*.*"), *code.glob("*.*")]
    try:
        made = page.stat().st_mtime_ns
        if any(each.stat().st_mtime_ns >= made for each in sources):
            return None
    except OSError:
        return None
    centers = last_centers(path)
    return None if centers is None else ShownGame(read_origin(read_saved_game(path), tuple(sorted(centers))), centers)


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
    if game.shown is None:
        return f'<td>{name}</td><td colspan="7">{html.escape(game.problem)}</td>'
    origin, power = game.shown.origin, game.power
    cells = [f'<a href="{html.escape(game.link)}">{name}</a>', str(game.shown.centers.get(power, ""))]
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
