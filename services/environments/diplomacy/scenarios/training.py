"""Scenarios as starting positions of training games: drawn by share, mixed with whole games."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.scenarios.files import all_named
from services.environments.diplomacy.scenarios.scenario import Scenario, ScenarioError
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame


def draw(names: Sequence[str], share: float, country: str, seed: int) -> str:
    """The id of a scenario of ``country`` among ``names``, in ``share`` (0 to 1) of the seeds; else "".

    All scenarios of the country are equally likely. A country without any gets "".
    """
    own = [each.id for each in _by_id(tuple(names)).values() if each.country == country]
    rng = random.Random(derive_seed(seed, "scenario"))
    return rng.choice(own) if rng.random() < share and own else ""


def check(names: Sequence[str]) -> None:
    """Set up the position of every scenario. Raises ScenarioError for the first that cannot be used."""
    for scenario in _by_id(tuple(names)).values():
        ScenarioGame.begin(scenario)


def begin(start: str, names: Sequence[str], game_id: str | None = None) -> ScenarioGame:
    """The game of a start that ``draw`` drew from these names."""
    scenario = _by_id(tuple(names)).get(start)
    if scenario is None:
        raise ScenarioError(f"game.scenarios has no scenario {start!r}; were its files changed during the run?")
    return ScenarioGame.begin(scenario, game_id)


@cache
def _by_id(names: tuple[str, ...]) -> dict[str, Scenario]:
    return {scenario.id: scenario for scenario in all_named(names)}
