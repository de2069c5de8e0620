"""Saved policies as members that stay in their folders: ``player:NAME``, which need not be of the run's shape."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from grpo_core.checkpoints.folders import MANIFEST, latest_checkpoint, read_manifest, weights_checksum
from grpo_core.errors import one_line
from opponents.champion.shipped import CHAMPION, shipped_champion
from opponents.population.member import Member, PopulationError


class SavedPlayer(NamedTuple):
    """A policy in its own folder, as it is now."""

    source: str  # ``champion``, or an absolute folder
    version: int  # the updates behind it; 0: unknown
    checksum: str  # SHA-256 of its weights


def saved_player(name: str, path: str) -> SavedPlayer:
    """Return the policy in a folder (of a run, its newest checkpoint), or the champion, which ``name`` is to play.

    Raises PopulationError if the folder is not there, CheckpointError if it has no weights.
    """
    if path == CHAMPION:
        return _as_it_is(CHAMPION)
    folder = Path(path)
    if not folder.is_dir():
        raise PopulationError(
            f"player {name}: there is no folder {one_line(repr(path), 120)}; name a run or checkpoint"
        )
    return _as_it_is(str((latest_checkpoint(folder) or folder).absolute()))


def check_saved_player(member: Member) -> str:
    """Return the folder (or ``champion``) of a saved player, after comparing its weights with those that joined.

    Raises PopulationError if they are others or not there, CheckpointError if there are none in the folder.
    """
    source = member.source or ""
    shown = one_line(source, 200)
    if source != CHAMPION and not Path(source).is_dir():
        raise PopulationError(
            f"{member.id} is in {shown}, which is not seen here: put it back, or on a disk that all nodes share"
        )
    if _as_it_is(source).checksum != member.checksum:
        raise PopulationError(
            f"{member.id}: the weights of {shown} are not those that joined the population; put them back, or give "
            "the new player a new name"
        )
    return source


def _as_it_is(source: str) -> SavedPlayer:
    if source == CHAMPION:
        champion = shipped_champion()
        return SavedPlayer(CHAMPION, champion.version, champion.checksum)
    folder = Path(source)
    version = read_manifest(folder)["version"] if (folder / MANIFEST).exists() else 0
    return SavedPlayer(source, version, weights_checksum(folder))
