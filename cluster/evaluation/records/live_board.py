"""A game in the terminal while it is played: centres of each power as bars, and the orders of its last phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from grpo_core.errors import one_line
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, PastPhase, Position
from services.reports.colors import DARK_COLORS

REFRESHES_PER_S = 8
_LONGEST_NAME = 24  # characters of a player


@contextmanager
def live_board(seats: Mapping[str, str], console: Console) -> Iterator[Callable[[DiplomacyGame], None] | None]:
    """Give what shows a game after each of its phases; None where the output is no terminal.

    ``seats`` are the names of the players by power. The last board stays on the screen.
    """
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=REFRESHES_PER_S) as live:
        yield lambda game: live.update(board(game.position, seats))


def board(position: Position, seats: Mapping[str, str]) -> Group:
    """The board of a position: powers by centres, and what was ordered last with what came of it."""
    past = position.past[-1] if position.past else None
    title = f"{position.phase}, after {past.phase}" if past is not None else position.phase
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in ("country", "player", "centres"):
        table.add_column(name, no_wrap=True)
    table.add_column("units", justify="right")
    table.add_column("last orders", overflow="fold")
    for power in sorted(POWERS, key=lambda each: (-len(position.centers[each]), each)):
        centers = len(position.centers[power])
        bar = Text("\u2588" * centers, style=DARK_COLORS[power])
        bar.append(f" {centers}", style="bold" if centers else "dim")
        table.add_row(
            Text(power, style="" if centers else "dim"),
            one_line(seats[power], _LONGEST_NAME),
            bar,
            str(len(position.units[power])),
            _orders(past, power),
        )
    return Group(table)


def _orders(past: PastPhase | None, power: str) -> Text:
    """The orders of a power in a line; those that failed are marked with the reason."""
    text = Text()
    for order in () if past is None else past.orders.get(power, ()):
        unit = " ".join(order.split(" ", 2)[:2])
        failed = past.results.get(unit, ()) if past is not None else ()
        text.append("  " if text else "")
        text.append(order, style="red" if failed else "")
        if failed:
            text.append(f" ({', '.join(failed)})", style="dim red")
    return text
