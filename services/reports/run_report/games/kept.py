"""The saved games of all evaluations of a run, in short: who had how many centres in each phase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from grpo_core.files import file_name, read_bytes
from services.reports.colors import MAP_COLORS
from services.reports.run_report.data import RunData, checkpoint_update

MOST_SCANNED = 1000  # files; reading one takes about a millisecond
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_POWER = re.compile(r"[A-Z]{1,20}")
_CENTERS = Annotated[list[str], msgspec.Meta(max_length=81)]


class _State(msgspec.Struct):
    centers: dict[str, _CENTERS]


class _Phase(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(max_length=40)]
    state: _State


class _Saved(msgspec.Struct):
    phases: Annotated[list[_Phase], msgspec.Meta(min_length=1, max_length=1000)]


@dataclass(frozen=True, slots=True)
class KeptGame:
    """One saved game: the policy as one power, an anchor as the six others."""

    path: Path
    power: str  # the evaluated policy's
    label: str  # of the evaluation: "trained"
    against: str
    update: int  # of the policy
    phases: tuple[str, ...]
    centers: tuple[Mapping[str, int], ...]  # of every power, by phase; the last is the end


def has_games(run: RunData) -> bool:
    """Whether the run's saved games are of the powers of the map."""
    return set(run.measured.roles) == set(MAP_COLORS)


def is_own(game: Path) -> bool:
    """Whether neither a saved game nor a file beside it is a link, which in a run from elsewhere may lead anywhere."""
    return not any(path.is_symlink() for path in game.parent.glob(f"{game.stem}.*"))


def game_files(run: RunData, label: str, against: str) -> Iterator[Path]:
    """Yield the games that an evaluation saved; none of a folder that leads out of the run."""
    folder = run.folder / "games" / file_name(f"{label}-{against}")
    # A link in a run from elsewhere must not lead to files that are not the run's.
    if not _FOLDER.fullmatch(folder.name) or not folder.resolve().is_relative_to(run.folder.resolve()):
        return
    if folder.is_dir():
        yield from (path for path in sorted(folder.glob("*.json")) if _POWER.fullmatch(path.stem) and is_own(path))


def kept_games(run: RunData) -> list[KeptGame]:
    """Read the saved games of all evaluations, by update, at most ``MOST_SCANNED``; damaged files are left out."""
    if not has_games(run):
        return []
    rows = {(str(row.get("label", "")), str(row["against"])): checkpoint_update(row) for row in run.course}
    files = (
        (path, label, against, update)
        for (label, against), update in rows.items()
        for path in game_files(run, label, against)
    )
    games = [_kept(*each) for each in islice(files, MOST_SCANNED)]
    return sorted((game for game in games if game is not None), key=lambda game: (game.update, str(game.path)))


def last_centers(path: Path) -> Mapping[str, int] | None:
    """Return the centres of every power at a saved game's end; None for a damaged file."""
    saved = _read(path)
    return None if saved is None else _centers(saved.phases[-1])


def _read(path: Path) -> _Saved | None:
    try:
        return msgspec.json.decode(read_bytes(path), type=_Saved)
    except (OSError, ValueError, RecursionError):  # the table of games names the damaged ones
        return None


def _centers(phase: _Phase) -> dict[str, int]:
    return {power: len(phase.state.centers.get(power, ())) for power in MAP_COLORS}


def _kept(path: Path, label: str, against: str, update: int) -> KeptGame | None:
    saved = _read(path)
    if saved is None or path.stem not in MAP_COLORS:
        return None
    centers = tuple(map(_centers, saved.phases))
    return KeptGame(path, path.stem, label, against, update, tuple(phase.name for phase in saved.phases), centers)
