"""Entente from Python: train policies for Diplomacy, evaluate them, and let them play.

    import entente

    run = entente.train("smoke", overrides={"learner.updates": 2})
    rows = entente.evaluate(run, against=["random", "dumbbot"], games_per_country=2, until_year=1903)
    game = entente.play({"FRANCE": run}, default="dumbbot", until_year=1905)
    game.html("game.html")

The functions do what the commands of the same names do, also inside a running event loop, as in a notebook. What the
user can mend is raised as an ``EntenteError``, whose message is one line. The import is quick: torch, Ray and the
game's engine are imported by the functions that need them.
"""

from cluster.api.games import Game, evaluate, play
from cluster.api.player import Player, open_player
from cluster.api.rows import Rows
from cluster.api.run import Run, load_run
from cluster.api.training import train
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from grpo_core.errors import EntenteError

__all__ = [
    "Config",
    "EntenteError",
    "Game",
    "Player",
    "Rows",
    "Run",
    "evaluate",
    "load_config",
    "load_run",
    "open_player",
    "play",
    "train",
]
