"""Votes on a draw, which players give with the orders of a movement phase, a line like an order."""

from __future__ import annotations

from collections.abc import Iterable

from services.environments.diplomacy.position import POWERS, Position
from services.environments.playing import Slot

DRAW, PLAY_ON = "DRAW", "PLAY-ON"
BALLOT = Slot((PLAY_ON, DRAW), (None, None))
_QUIET_ENOUGH, _QUIET_FOR_LEADER = 2, 4  # years, for bots


def takes_votes(position: Position, power: str) -> bool:
    """Whether ``power`` votes in this phase: in a game that votes on draws, with its movement orders."""
    return position.draw_vote is not None and bool(position.orderable.get(power))


def split_votes(lines: Iterable[str]) -> tuple[list[str], bool]:
    """The lines without votes, and whether one of them is for a draw; case and spaces do not matter."""
    others, wanted = [], False
    for line in lines:
        word = "-".join(line.upper().rstrip(" .;,").split())
        if word not in (DRAW, PLAY_ON):
            others.append(line)
        wanted = wanted or word == DRAW
    return others, wanted


def accepts_draw(position: Position, power: str) -> bool:
    """How bots vote: for a draw once two years were quiet; who alone has most centres waits for four."""
    if position.draw_vote is None:
        return False
    own = len(position.centers[power])
    leads = all(len(position.centers[other]) < own for other in POWERS if other != power)
    return position.draw_vote.quiet_years >= (_QUIET_FOR_LEADER if leads else _QUIET_ENOUGH)
