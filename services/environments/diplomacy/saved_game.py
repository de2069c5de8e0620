"""Reads a saved game's document and checks what the engine does not: types, names and numbers of things."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from diplomacy.utils.constants import DEFAULT_GAME_RULES

from grpo_core.errors import EntenteError, one_line
from grpo_core.files import read_json

# Rules of saved games that do not change play here.
PLAYABLE_RULES = frozenset({*DEFAULT_GAME_RULES, "ALWAYS_WAIT", "CD_DUMMIES", "NO_DEADLINE", "PUBLIC_PRESS"})

_Power = Literal["AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"]
_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Unit = Annotated[str, msgspec.Meta(pattern=r"^\*?[AF] [A-Z]{3}(/[A-Z]{2})?$")]
_Place = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}(/[A-Z]{2})?$")]
_Places = Annotated[list[_Place], msgspec.Meta(max_length=81)]  # provinces and coasts of the map
_Units = Annotated[list[_Unit], msgspec.Meta(max_length=81)]
_Orders = Annotated[list[_Text], msgspec.Meta(max_length=81)]
_Retreats = Annotated[dict[_Unit, _Places], msgspec.Meta(max_length=81)]
_Phase = Annotated[str, msgspec.Meta(pattern=r"^([SFW][0-9]{4}[MRA]|FORMING|COMPLETED)$")]


class SavedGameError(EntenteError):
    """A file cannot be loaded as a game; the message is one line with the file and the reason."""


class _State(msgspec.Struct):
    name: _Phase
    units: dict[_Power, _Units] = {}
    centers: dict[_Power, _Places] = {}
    retreats: dict[_Power, _Retreats] = {}
    homes: dict[_Power, _Places] = {}
    influence: dict[_Power, _Places] = {}
    note: str | None = ""


class _PhaseData(msgspec.Struct):
    name: _Phase
    state: _State
    orders: dict[_Power, _Orders | None] | None = None


class _Game(msgspec.Struct):
    phases: Annotated[list[_PhaseData], msgspec.Meta(max_length=1000)]  # ninety-nine years have fewer
    id: _Text | None = None


def read_saved_game(path: Path) -> dict[str, Any]:
    """Return the document of a game on the standard map, in the engine's saved format.

    Raises SavedGameError for other files.
    """
    try:
        saved = read_json(path)
    except OSError as error:
        raise SavedGameError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SavedGameError(f"{path}: not a saved game: not one JSON document ({one_line(error, 200)})") from error
    return check_saved_game(saved, str(path))


def check_saved_game(saved: Any, path: str) -> dict[str, Any]:
    """Return the document of a game as ``read_saved_game`` does, from JSON data; ``path`` is its name for errors."""
    if not isinstance(saved, dict) or not isinstance(saved.get("phases"), list) or not saved["phases"]:
        raise SavedGameError(f"{path}: not a saved game: it has no list of phases")
    if saved.get("map", "standard") != "standard":
        played_on = one_line(repr(saved["map"]), 80)
        raise SavedGameError(f"{path}: played on the map {played_on}; only the standard map is played here")
    try:
        rules = msgspec.convert(saved.get("rules", []), list[_Text])
        if unknown := sorted(set(rules) - PLAYABLE_RULES):
            shown = one_line(", ".join(unknown), 200)
            raise SavedGameError(f"{path}: played under rules that are not played here: {shown}")
        msgspec.convert(saved, _Game)
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise SavedGameError(f"{path}: not a saved game: {one_line(error, 200)}") from error
    return saved
