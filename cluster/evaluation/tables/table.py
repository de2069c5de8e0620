"""A game to play between numbered players, what is wanted of it, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.environments.playing import Parts, Policy, Standing
from services.environments.seat_player import SeatPlayer


@dataclass(frozen=True, slots=True)
class PlayerSpec:
    """A player as it is opened where a game is played."""

    player: str | Policy  # a name for ``open_policy``, or an open one, which only the own process can use
    temperature: float | None = None  # of its sampling; None: that of its run's evaluations


@dataclass(frozen=True, slots=True)
class SavedTable:
    """How a game is kept when it is over."""

    path: str  # of the file, in a folder that exists where the game is played
    players: Mapping[str, SeatPlayer]  # who sits in each seat
    commit: str  # of this code


@dataclass(frozen=True, slots=True)
class Table:
    """One game. ``seats`` has the number of a player for each seat."""

    number: int  # of its round, in which each measured player has every role once
    seats: Mapping[str, int]
    measured: tuple[str, ...]  # seats whose outcomes are wanted
    role: str  # as which the game is set up: a measured seat
    start: str  # of ``World.new_game``
    seed: int
    temperature: float | None = None  # of the sampling of the player in ``role``; None: the one that it was opened with
    saved: SavedTable | None = None  # None: the game is not kept


@dataclass(frozen=True, slots=True)
class Played:
    """A finished table."""

    table: Table
    outcomes: Mapping[str, Parts]  # of the measured seats
    notes: Mapping[str, str]
    standing: Standing | None = None  # of all seats; None: the world does not say who finished where
