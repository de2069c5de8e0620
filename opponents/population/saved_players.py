"""Saved policies as members that stay in their folders: ``player:NAME``, which need not be of the run's shape."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from grpo_core.checkpoints.folders import MANIFEST, latest_checkpoint, read_manifest, weights_checksum
from grpo_core.errors import one_line
from opponents.champion.shipped import CHAMPION, shipped_champion
from opponents.player_names import player_name, with_saved
from opponents.population.member import Member, PopulationError


class SavedPlayer(NamedTuple):
    """A policy in its own folder, as it is now."""

    source: str  # ``champion``, or an absolute folder; a prefix of ``player_name`` may stand before either
    version: int  # the updates behind it; 0: unknown
    checksum: str  # SHA-256 of its weights


def saved_player(name: str, path: str) -> SavedPlayer:
    """Return the policy in a folder (of a run, its newest checkpoint), or the champion, which ``name`` is to play.

    Raises PopulationError if the folder is not there, CheckpointError if it has no weights.
    """
    saved = player_name(path).saved
    if saved == CHAMPION:
        return _as_it_is(path)
    folder = Path(saved)
    if not folder.is_dir():
        raise PopulationError(
            f"player {name}: there is no folder {one_line(repr(saved), 120)}; name a run or checkpoint"
        )
    return _as_it_is(with_saved(path, str((latest_checkpoint(folder) or folder).absolute())))


def check_saved_player(member: Member) -> str:
    """Return the source of a saved player, after comparing its weights with those that joined.

    Raises PopulationError if they are others or not there, CheckpointError if there are none in the folder.
    """
    source = member.source or ""
    shown = one_line(source, 200)
    saved = player_name(source).saved
    if saved != CHAMPION and not Path(saved).is_dir():
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
    saved = player_name(source).saved
    if saved == CHAMPION:
        champion = shipped_champion()
        return SavedPlayer(source, champion.version, champion.checksum)
    folder = Path(saved)
    version = read_manifest(folder)["version"] if (folder / MANIFEST).exists() else 0
    return SavedPlayer(source, version, weights_checksum(folder))
