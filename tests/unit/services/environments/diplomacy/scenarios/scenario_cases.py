"""A small scenario for tests, and games of bots in it."""

from __future__ import annotations

from typing import Any

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.scenarios.behaviour import other_players
from services.environments.diplomacy.scenarios.scenario import Scenario
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from services.environments.playing import Bot

DOCUMENT: dict[str, Any] = {
    "id": "two-armies",
    "title": "Two armies in the Alps",
    "family": "crisis",
    "country": "ITALY",
    "phase": "S1903M",
    "horizon": "W1903A",
    "task": "Keep Venice.",
    "notes": "Made up.",
    "units": {"ITALY": ["A VEN", "F NAP"], "AUSTRIA": ["A TRI", "A TYR"], "FRANCE": ["A MAR"]},
    "centers": {"ITALY": ["NAP", "ROM", "VEN"], "AUSTRIA": ["BUD", "TRI", "VIE"], "FRANCE": ["MAR", "PAR"]},
    "score": {"provinces": ["ROM", "VEN"]},
}


def scenario(**changed: Any) -> Scenario:
    """The scenario with other values of some keys."""
    return Scenario.model_validate({**DOCUMENT, **changed})


def played(given: Scenario, player: str | Bot, seed: int = 0) -> ScenarioGame:
    """Play a scenario to its horizon."""
    game = ScenarioGame.begin(given)
    seats = {**other_players(given), given.country: make_bot(player) if isinstance(player, str) else player}
    step = 0
    while not game.is_done:
        position = game.position
        game.step(
            {power: seats[power].actions(position, power, derive_seed(seed, step, power)) for power in game.to_act()}
        )
        step += 1
    return game
