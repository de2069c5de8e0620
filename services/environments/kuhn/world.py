"""Three-player Kuhn poker as a world: seats are roles, and cards are hidden. An example to copy."""

from __future__ import annotations

import random

from grpo_core.types import Measure
from services.environments.environment import World
from services.environments.kuhn.game import CARDS, SEATS, Hand, KuhnGame
from services.environments.kuhn.language import KuhnLanguage
from services.environments.playing import Bot


class RandomBot(Bot):
    """Takes either choice with the same chance."""

    def actions(self, view: Hand, seat: str, seed: int) -> tuple[str, ...]:  # noqa: ARG002
        """One draw."""
        return (random.Random(seed).choice(view.choices),)


class Kuhn(World):
    """Three-player Kuhn poker."""

    name, role_name, roles = "kuhn", "seat", SEATS
    measures = (
        Measure("chips", "chips", "Chips", "mean chips won", "mean", -2.0, 4.0, phrase="{} chips", even=0.0),
        Measure("win_rate", "won", "Pots", "share of pots won", "share", phrase="wins {}"),
    )
    episode_facts = ("card",)
    group_keys = ("seat+card", "seat")
    bots = {"random": RandomBot}  # noqa: RUF012
    language = KuhnLanguage()

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> KuhnGame:  # noqa: ARG002
        """A game with the cards of its start."""
        return KuhnGame(start)

    def draw_start(self, role: str, seed: int) -> str:  # noqa: ARG002
        """The cards of a block's games: three of the four."""
        return "".join(random.Random(seed).sample(CARDS, len(SEATS)))


WORLD = Kuhn
