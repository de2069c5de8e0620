"""Draws saved games as pages beside them, unless an earlier report has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.reports.page import ReportError
from services.reports.run_report.games.kept import last_centers

if TYPE_CHECKING:
    from services.reports.game_viewer.game_viewer import ShownGame
    from services.reports.game_viewer.press import TellPress

AddBar = Callable[[str, int], Callable[[int], None]]  # (name, steps) -> advance(steps done)


@dataclass(frozen=True, slots=True)
class GamePage:
    """The page of a saved game."""

    link: str  # its path relative to the report; of a damaged file, empty
    shown: ShownGame | None
    problem: str  # one line; empty unless the file is damaged


def draw_page(game: Path, run_dir: Path, tell_press: TellPress | None = None) -> GamePage:
    """Write the page of a saved game beside it; raises ``StorageError`` if it cannot be written."""
    from services.reports.game_viewer.frames import read_saved_game
    from services.reports.game_viewer.game_viewer import write_viewer
    from services.reports.game_viewer.press import short_name, told_press

    page = game.with_suffix(".html")
    try:
        # What became of letters is told by code of the world, which may have changed since.
        has_press = tell_press is not None and any(told_press(read_saved_game(game), tell_press, short_name(game)))
        shown = (None if has_press else _shown_before(game, page)) or write_viewer(game, page, tell_press)
    except ReportError as error:
        return GamePage("", None, str(error))
    return GamePage(quote(page.relative_to(run_dir).as_posix()), shown, "")


def advance_of(add_bar: AddBar | None, name: str, steps: int) -> Callable[[int], None]:
    """Open a bar for work of some ``steps``; where there is none to show, or no bars, nothing is shown."""
    return add_bar(name, steps) if add_bar is not None and steps else lambda _: None


def _shown_before(game: Path, page: Path) -> ShownGame | None:
    """What an earlier report's page of a game shows, if neither the game nor the code that draws it is newer.

    Drawing takes 10 to 30 ms a phase, and a run may have dozens of games. A link is never such a page.
    """
    from services.reports.game_viewer.frames import read_saved_game
    from services.reports.game_viewer.game_viewer import ShownGame
    from services.reports.game_viewer.origin import read_origin

    sources = [each for each in game.parent.glob(f"{game.stem}.*") if each != page]  # records beside it, too
    code = Path(__file__).parents[2]
    sources += [*(code / "game_viewer").glob("*.*"), *code.glob("*.*")]
    try:
        made = page.lstat().st_mtime_ns
        if page.is_symlink() or any(each.stat().st_mtime_ns >= made for each in sources):
            return None
    except OSError:
        return None
    centers = last_centers(game)
    return None if centers is None else ShownGame(read_origin(read_saved_game(game), tuple(sorted(centers))), centers)
