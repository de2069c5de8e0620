"""Games of training that a run kept: a page for each of the newest, with how the update judged their decisions."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_core.types import role_label
from services.reports.game_viewer.decisions import read_decisions
from services.reports.game_viewer.press import TellPress
from services.reports.page import ReportError
from services.reports.run_report.data import RunData
from services.reports.run_report.games.drawing import AddBar, GamePage, advance_of, draw_page
from services.reports.run_report.games.kept import has_games, is_own
from services.reports.run_report.table import NO_DATA, scrolling

FOLDER = "training"  # below a run's games
MOST_GAMES = 8  # pages of one report; a block may have more
_BLOCK = re.compile(r"b[0-9]{1,12}")
_MEMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class TrainingGame:
    """One kept game: one member of a block, whose games begin alike."""

    name: str  # "b000480/0"
    role: str  # the learner's; "" if that is unknown, as without recorded decisions
    update: int | None  # that judged its decisions; None: not yet
    page: GamePage


def show_training_games(
    run: RunData, add_bar: AddBar | None = None, tell_press: TellPress | None = None
) -> list[TrainingGame]:
    """Write the pages of the newest judged block, or of the newest one; ``StorageError`` if one cannot be written."""
    if not has_games(run):
        return []
    blocks = _blocks(run.folder)
    judged = (games for games in blocks if any(_judged(game)[1] is not None for game in games))
    games = next(judged, blocks[0] if blocks else [])
    advance = advance_of(add_bar, "pages of training games", len(games))
    found = []
    for game in games:
        role, update = _judged(game)
        found.append(
            TrainingGame(f"{game.parent.name}/{game.stem}", role, update, draw_page(game, run.folder, tell_press))
        )
        advance(1)
    return found


def _blocks(run_dir: Path) -> list[list[Path]]:
    """The kept games of each block, the newest block first; a link in a run from elsewhere is not followed."""
    top = run_dir / "games" / FOLDER
    if not top.is_dir() or not top.resolve().is_relative_to(run_dir.resolve()):
        return []
    folders = [each for each in top.iterdir() if _BLOCK.fullmatch(each.name) and not each.is_symlink()]
    found = [
        sorted(
            (game for game in folder.glob("*.json") if _MEMBER.fullmatch(game.stem) and is_own(game)),
            key=lambda game: int(game.stem),
        )[:MOST_GAMES]
        for folder in sorted(folders, key=lambda folder: int(folder.name[1:]), reverse=True)
    ]
    return [games for games in found if games]


def _judged(game: Path) -> tuple[str, int | None]:
    """The learner's role in a game and the update that judged its decisions."""
    try:
        decisions = read_decisions(game)
    except ReportError:
        return "", None
    first = next(iter(decisions.decisions), None) if decisions is not None else None
    if first is None:
        return "", None
    return first.power, None if first.judgement is None else first.judgement.version


def training_games_table(games: Sequence[TrainingGame]) -> str:
    """Return the table of games with links to their pages; empty without games."""
    if not games:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("game", "centres", "judged by update", "the other six"))
    body = "".join(f"<tr>{_row(game)}</tr>" for game in games)
    note = (
        "The newest kept games of training; games of one block begin alike. Their pages show each decision of the "
        "policy: what it read, how probable it found its orders, and its return beside those of its group. "
        "<code>entente replay</code> shows two of them side by side."
    )
    table = scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", "Games of training")
    return f'<section id="training-games"><h2>Games of training</h2><p class="soft">{note}</p>{table}</section>'


def _row(game: TrainingGame) -> str:
    name = html.escape(" in ".join(filter(None, [role_label(game.role) if game.role else "", game.name])))
    shown = game.page.shown
    if shown is None:
        return f'<td>{name}</td><td colspan="3">{html.escape(game.page.problem)}</td>'
    others = dict.fromkeys(seat.player for power, seat in shown.origin.seats.items() if power != game.role)
    cells = (
        f'<a href="{html.escape(game.page.link)}">{name}</a>',
        str(shown.centers.get(game.role, NO_DATA)),
        (NO_DATA if not game.role else "not yet") if game.update is None else str(game.update),
        html.escape(", ".join(others)) if game.role else NO_DATA,
    )
    return "".join(f"<td>{cell}</td>" for cell in cells)
