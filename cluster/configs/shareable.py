"""A configuration as it may leave the machine: without where this machine, its files and its servers are."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from cluster.configs.schema import Config
from opponents.champion.shipped import shown_path
from opponents.player_names import player_name, with_saved

_FILES = (("imitation", "saved_games"), ("game", "saved_games"), ("game", "gsm8k"), ("evaluation", "gsm8k"))
_ADDRESSES = (("redis", "url"), ("redis", "urls"), ("run", "ray_address"), ("metrics", "host"))


def shareable(config: Config) -> dict[str, Any]:
    """Return the resolved configuration in JSON values, without any address; of paths only the last part is left.

    Urls are left out with their hosts, accounts, keys and certificate files. ``policy.path`` stays whole where it is a
    name on the Hub.
    """
    told = config.model_dump(mode="json")
    for section, key in _ADDRESSES:
        del told[section][key]
    told["opponents"]["players"] = {
        name: with_saved(path, shown_path(player_name(path).saved)) for name, path in config.opponents.players.items()
    }
    for remote in told["opponents"]["remotes"].values():
        del remote["base_url"]
    if config.policy.path is not None:
        told["policy"]["path"] = shown_path(config.policy.path)
    for section, key in _FILES:
        if told[section].get(key) is not None:
            told[section][key] = PurePath(told[section][key]).name
    return told
