"""What runs of three worlds measure: Diplomacy, a made-up game of three seats, and made-up tasks for one player."""

from __future__ import annotations

from grpo_core.types import Measure, RoleMeasures
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.metrics.catalogue import declare

DIPLOMACY = RoleMeasures(Diplomacy.role_name, POWERS, Diplomacy.measures, 6, "against six {}")
WITH_PRESS = Diplomacy(GameSettings(press_rounds=1)).measured
# Its word for a seat is one that no world of the house uses, so that both can be declared in one process.
CHAIRS = RoleMeasures(
    "chair",
    ("A", "B", "C"),
    (
        Measure(
            "chips", "chips", "Chips", "mean chips won", "mean", -2.0, 4.0, "chips", column="mean_chips",
            phrase="{} chips", even=0.0,
        ),
        Measure("showdown_rate", "showdown", "Showdowns", "share of games shown down", "share", phrase="shown {}"),
        Measure("bet_rate", "bet", "Bets", "share of games with a bet", "share", phrase="bets {}"),
        Measure("regret", "regret", "Regret", "mean regret", "mean", only_evaluated=True),
    ),
    2,
    "against two {}",
)  # fmt: skip
TOPICS = RoleMeasures(
    "topic",
    ("algebra", "two_steps"),
    (Measure("solved", "solved", "Solved", "share of problems solved", "share"),),
    opposition="on {}",
)
for measured in (DIPLOMACY, WITH_PRESS, CHAIRS, TOPICS):
    declare(measured)
