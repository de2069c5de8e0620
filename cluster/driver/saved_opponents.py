"""Checks of the saved policies that a new run is to play against, before anything starts."""

from __future__ import annotations

from pathlib import Path

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.players.opening import check_player, check_world
from cluster.runs.folder import sampling_of
from grpo_core.errors import EntenteError, one_line
from opponents.champion.shipped import CHAMPION, player_folder
from opponents.player_names import player_name
from opponents.players.chat_players import ChatPlayers
from opponents.settings import saved_members


def check_saved_opponents(config: Config) -> None:
    """Check that the folders of ``player:NAME`` and the champion can be played; on a cluster nodes may see more.

    Raises RunError that names the player and says what is wrong with it.
    """
    if not config.world.has_opponents:
        return
    for name, path in saved_members(config.opponents).items():
        saved = player_name(path).saved
        if config.run.ray_address is not None and saved != CHAMPION and not Path(saved).exists():
            continue
        try:
            check_player(path, ChatPlayers({}), type(config.world))
            check_world(path, sampling_of(player_folder(saved)), config.world)
        except EntenteError as error:
            raise RunError(f"opponents.players: {name}: {one_line(error, 300)}") from error
