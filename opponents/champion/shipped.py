"""Finds the shipped policy, and compares every file of it with the manifest before anything opens it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from grpo_core.checkpoints.folders import fingerprint, weights_checksum
from grpo_core.errors import CheckpointError
from grpo_core.files import check_regular, path_inside, read_json
from grpo_core.models.hub import model_folder, without_folders
from opponents import player_names

CHAMPION = player_names.CHAMPION
ROOM = Path(__file__).parent
WEIGHTS = "weights"  # in the room: an exported policy's folder
MANIFEST = "manifest.json"  # beside it, not in it: a folder with such a file would be a checkpoint
SCHEMA = 1
LARGEST_BYTES = 8_000_000  # of all files of the folder
_LONGEST_MANIFEST = 1 << 20


class ChampionError(CheckpointError):
    """The champion's files are not those that were shipped."""


@dataclass(frozen=True, slots=True)
class Champion:
    """The shipped policy, whole."""

    folder: Path  # as ``entente export`` writes it
    version: int  # grows with each release: updates of training, and rounds of imitation of own games
    checksum: str  # SHA-256 of its weights


def shipped_champion(room: Path = ROOM) -> Champion:
    """Return the shipped policy after comparing every file with the manifest.

    Raises:
        ChampionError: a file is missing, altered or not in the manifest; the message names it.
    """
    version, files = _read_manifest(room / MANIFEST)
    folder = room / WEIGHTS
    for name, expected in files.items():
        if not _is_same(folder, name, expected):
            _not_whole(f"{WEIGHTS}/{name}")
    for path in sorted(folder.iterdir()):
        if path.name not in files:
            _not_whole(f"{WEIGHTS}/{path.name}")
    return Champion(folder, version, weights_checksum(folder))


def player_folder(name: str) -> Path:
    """Return the folder that a player's name stands for: the shipped one for ``champion``, else the path itself.

    The folder of a path need not exist. Raises ChampionError if the champion's files are not whole.
    """
    return shipped_champion().folder if name == CHAMPION else Path(name)


def starting_folder(path: str) -> Path:
    """Return the folder of a run's first policy: the champion's, or what ``model_folder`` finds.

    Raises ChampionError if the champion's files are not whole, CheckpointError as ``model_folder``.
    """
    return shipped_champion().folder if path == CHAMPION else model_folder(path)


def name_of_path(given: str | os.PathLike[str]) -> str:
    """Return a player's name as text. A path object is always a folder, whatever it is called."""
    name = os.fspath(given)
    return name if isinstance(given, str) else as_folder(name)


def as_folder(name: str) -> str:
    """Return the name of a folder so that it does not read as the champion's, or as how a policy plays."""
    plain = player_names.PlayerName(name, looks_ahead=False)
    return name if player_names.player_name(name) == plain else f"./{name}"


def shown_path(path: str) -> str:
    """Return the last part of a model's path, as ``without_folders`` does; the champion keeps its name to itself."""
    return path if path == CHAMPION else as_folder(without_folders(path))


def manifest_of(folder: Path, version: int) -> dict[str, Any]:
    """Return the manifest of a folder: size and SHA-256 of each file, and the version of the policy."""
    files = {path.name: fingerprint(path) for path in sorted(folder.iterdir())}
    return {"schema": SCHEMA, "version": version, "files": files}


def _read_manifest(path: Path) -> tuple[int, dict[str, Any]]:
    try:
        manifest = read_json(path, _LONGEST_MANIFEST)
        version, files = manifest["version"], manifest["files"]
    except (OSError, ValueError, KeyError, TypeError):
        _not_whole(path.name)
    if manifest.get("schema") != SCHEMA or type(version) is not int or not isinstance(files, dict) or not files:
        _not_whole(path.name)
    return version, files


def _is_same(folder: Path, name: str, expected: object) -> bool:
    try:
        path = path_inside(folder, name)
        check_regular(path, LARGEST_BYTES)
        return fingerprint(path) == expected
    except (OSError, ValueError):
        return False


def _not_whole(name: str) -> NoReturn:
    raise ChampionError(f"the champion's weights are not whole: {name}; reinstall the package") from None
