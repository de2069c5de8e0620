"""What one power sees before a movement phase: the position, and the press that it may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeGuard

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.ledger import Account
from services.environments.diplomacy.press.letters import Letter
from services.environments.diplomacy.press.promises import Promise
from services.environments.diplomacy.press.proposals import Proposal


@dataclass(frozen=True, slots=True)
class PressView:
    """A negotiation as one power knows it. It holds no letter that this power may not read, and nothing made of one."""

    reader: str
    rounds: int  # of the negotiation
    writes: int | None  # the round in which the reader writes now, from 0; None: the orders are due
    letters: tuple[Letter, ...]  # of the rounds before
    earlier: tuple[Letter, ...]  # of earlier phases
    waiting: Mapping[str, tuple[Proposal, ...]]  # partner -> what it has proposed that the reader has not answered
    promises: tuple[Promise, ...]  # that bind the reader, or another power to the reader, in this phase
    accounts: Mapping[str, Account]  # partner -> its promises to the reader that were tested in earlier phases
    longest: int  # characters of a letter, and of notes; more is cut off
    public: bool = False  # whether letters to all powers are delivered
    notes: str = ""  # what the reader has written to itself
    left: int | None = None  # characters of letters that it may still write in this game; None: no limit


@dataclass(frozen=True, slots=True)
class PressPosition(Position):
    """A position in a game with press, as one power sees it."""

    press: PressView = field(kw_only=True)


def with_press(position: Position, press: PressView) -> PressPosition:
    """The position with what a power sees of the press; cached results are shared."""
    return PressPosition(**{each.name: getattr(position, each.name) for each in fields(Position)}, press=press)


def writes_press(position: Position) -> TypeGuard[PressPosition]:
    """Whether letters are due in this view, not orders."""
    return isinstance(position, PressPosition) and position.press.writes is not None
