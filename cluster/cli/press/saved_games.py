"""Saved games that a command is given, as files or folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


def saved_files(games: Sequence[Path]) -> Iterator[Path]:
    """The files among these and in these folders (*.json), or in the folders of one that has no such file itself.

    Raises RunError for what is not there or holds none.
    """
    from cluster.errors import RunError

    for path in games:
        if not path.exists():
            raise RunError(f"{path}: there is no such file or folder; name saved games, as `entente play --out` writes")
        found = (sorted(path.glob("*.json")) or sorted(path.glob("*/*.json"))) if path.is_dir() else [path]
        if not found:
            raise RunError(f"{path} holds no *.json file; name a folder of saved games")
        yield from found
