"""Which weights a player has: what rows of results say beside its name."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cluster.evaluation.players.members import find_member, member_name
from grpo_core.checkpoints.folders import latest_checkpoint, weights_checksum
from opponents.champion.shipped import CHAMPION, shipped_champion
from opponents.player_names import player_name
from services.environments.playing import Policy
from services.environments.registry import DEFAULT_WORLD, load_world


class PlayerWeights(NamedTuple):
    """A player's version and checksum; both None for a bot, a remote player or an open one."""

    version: int | None  # the updates behind them; None: not known
    checksum: str | None  # SHA-256


NO_WEIGHTS = PlayerWeights(None, None)


def weights_of(player: str | Policy) -> PlayerWeights:
    """The weights that ``open_policy`` opens by a name, where ``newest`` named a run's checkpoint.

    Raises as ``version_of``, CheckpointError if a folder has no weights.
    """
    if not isinstance(player, str):
        return NO_WEIGHTS
    player = player_name(player).saved
    if player == CHAMPION:
        champion = shipped_champion()
        return PlayerWeights(champion.version, champion.checksum)
    if (member := member_name(player)) is not None:
        _, found = find_member(*member)
        return NO_WEIGHTS if found.kind == "bot" else PlayerWeights(found.version, found.checksum)
    path = Path(player)
    if not names_folder(player):
        return NO_WEIGHTS
    return PlayerWeights(version_of(player), weights_checksum(latest_checkpoint(path) or path))


def names_folder(player: str) -> bool:
    """Whether a player's name is that of a folder here. A bot's name is the bot's, whatever folders there are."""
    saved = player_name(player).saved
    return saved != CHAMPION and saved not in load_world(DEFAULT_WORLD).bots and Path(saved).is_dir()


def version_of(player: str | Policy) -> int | None:
    """The updates behind a checkpoint in a run's folder, as ``newest`` names it, a member or the champion; else None.

    Raises as ``find_member`` and ``shipped_champion``.
    """
    if not isinstance(player, str):
        return None
    player = player_name(player).saved
    if player == CHAMPION:
        return shipped_champion().version
    if (member := member_name(player)) is not None:
        _, found = find_member(*member)
        return None if found.kind == "bot" else found.version
    path = Path(player)
    return int(path.name) if path.parent.name == "checkpoints" and path.name.isdecimal() else None
