"""What the arguments of games and evaluations may be, in Python and on the command line."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from numbers import Real
from typing import Any, SupportsIndex, TypeVar

from cluster.errors import RunError
from grpo_core.errors import one_line
from opponents.champion.shipped import name_of_path
from services.environments.diplomacy.ending import FIRST_YEAR, LAST_YEAR, Ending, parse_ending
from services.environments.diplomacy.position import POWERS

LARGEST_SEED = 1 << 53
MOST_GAMES = 100_000  # of one country: days
MOST_PRESS_ROUNDS = 10  # as game.press_rounds
HIGHEST_TEMPERATURE = 100
_SHOWN = 80  # characters of a wrong argument

_Player = TypeVar("_Player")


def check_whole(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``, of Python or numpy, as Python's own; else raise RunError."""
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = None
    if whole is None or not low <= whole <= high:
        raise RunError(f"{name} must be a whole number from {low} to {high}, not {_shown(value)}")
    return whole


def check_ending(name: str, value: SupportsIndex | str) -> Ending:
    """Return the ending that a last year or ``end`` stands for; else raise RunError."""
    if not isinstance(value, str):
        return Ending(check_whole(name, value, FIRST_YEAR, LAST_YEAR))
    try:
        return parse_ending(value)
    except ValueError as error:
        raise RunError(f"{name}: {error}") from error


def check_temperature(value: float | None) -> float | None:
    """Return a sampling temperature from 0 (greedy) to 100, or None as it is; raise RunError for anything else."""
    if value is None:
        return None
    given: Any = value  # also numpy's numbers
    is_number = isinstance(given, Real)
    if not is_number or isinstance(value, bool) or not 0 <= given <= HIGHEST_TEMPERATURE:  # nor is nan in between
        raise RunError(f"temperature must be a number from 0 to {HIGHEST_TEMPERATURE}, not {_shown(given)}")
    return float(given)


def check_power(name: str) -> str:
    """Return a power's name in capitals; raise RunError for an unknown power."""
    power = name.upper() if isinstance(name, str) else name
    if power not in POWERS:
        raise RunError(f"there is no power {_shown(name)}; the seven are {', '.join(POWERS)}")
    return power


def check_seats(seats: Mapping[str, _Player] | None) -> dict[str, _Player]:
    """Return the players of some powers by the powers' names in capitals; raise RunError for anything else."""
    if seats is None:
        return {}
    if not isinstance(seats, Mapping):
        raise RunError(f'seats maps powers to players, e.g. {{"FRANCE": "dumbbot"}}; it is not {_shown(seats)}')
    found: dict[str, _Player] = {}
    for name, player in seats.items():
        power = check_power(name)
        if power in found:
            raise RunError(f"{power} is seated twice")
        found[power] = player
    return found


def check_name(value: str | os.PathLike[str]) -> str:
    """Return a player's name or folder as text; raise RunError for anything else."""
    name: Any = name_of_path(value) if isinstance(value, os.PathLike) else value
    if not isinstance(name, str):
        raise RunError(f"{_shown(value)} is no player: give a bot's name, champion, a folder or remote:NAME")
    return name


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"  # thousands of them cannot even be written
    return one_line(repr(value), _SHOWN)
