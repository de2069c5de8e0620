"""Makes a scenario of a phase of a saved game."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from grpo_core.errors import one_line
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.played_phases import saved_phases
from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS, Position
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game
from services.environments.diplomacy.scenarios.scenario import Family, Scenario, ScenarioError
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame

_LAST_YEAR = 9999  # none is reached: a saved phase is not over


def scenario_of(
    file: Path, phase: str, country: str, *, family: Family = "crisis", years: int = 2, partner: str | None = None
) -> Scenario:
    """The position of a phase as a scenario of ``country``, with a score that fits its family, to be edited by hand.

    The horizon is the end of the autumn ``years`` later, at least 1. ``partner`` is the ally of an alliance. An endgame
    is to be won.

    Raises SavedGameError if the file is not a saved game, ScenarioError if it has no such phase or the country has
    nothing to decide there.
    """
    phases = saved_phases(read_saved_game(file))
    state = next((each["state"] for each in phases if each["name"] == phase), None)
    if state is None:
        first, last = phases[0]["name"], phases[-1]["name"]
        raise ScenarioError(
            f"{file}: has no phase {one_line(repr(phase), 40)} with orders; it goes from {first} to {last}"
        )
    try:
        position = DiplomacyGame.from_state(state, _LAST_YEAR).position
    except Exception as error:  # the engine checks little, so that any kind may come of a file
        raise SavedGameError(f"{file}: phase {phase}: {type(error).__name__}: {one_line(error, 200)}") from error
    own = position.centers.get(country, ())
    score: dict[Family, dict[str, object]] = {
        "opening": {"goal": min(len(own) + 3, CENTERS_TO_WIN), "provinces": _within_reach(position, country)},
        "alliance": {"goal": 3, "partner": partner},
        "crisis": {"provinces": list(own)},
        "endgame": {"aim": "win"},
    }
    name = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:50] or "game"
    document = {
        "id": f"{name}-{phase.lower()}-{country.lower()}",
        "title": f"{country.title()} in {phase} of {file.name}",
        "family": family,
        "country": country,
        "phase": phase,
        "horizon": f"W{position.year + years}A",
        "task": _TASKS[family].format(country=country.title(), partner=(partner or "").title()),
        "notes": f"A position of the saved game {file.name}.",
        "units": {power: list(position.units[power]) for power in POWERS if position.units[power]},
        "centers": {power: list(position.centers[power]) for power in POWERS if position.centers[power]},
        "retreats": {
            power: {unit: list(places) for unit, places in beaten.items()}
            for power in POWERS
            if (beaten := position.dislodged[power])
        },
        "score": {key: value for key, value in score[family].items() if value is not None},
    }
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        first_fault = error.errors(include_url=False)[0]
        raise ScenarioError(
            f"{file}: {phase}: {one_line(first_fault['msg'].removeprefix('Value error, '), 250)}"
        ) from error
    ScenarioGame.begin(scenario)
    return scenario


def _within_reach(position: Position, country: str) -> list[str]:
    """The centres of others to which a unit of the country can move now; in other phases, those of all others."""
    own, centers = set(position.centers[country]), set(standard_map().scs)
    moves = (order.split(" ") for unit in position.units[country] for order in position.legal.get(unit[2:], ()))
    reached = {words[3][:3] for words in moves if words[2] == "-"} & centers - own
    return sorted(reached or centers - own)


_TASKS: dict[Family, str] = {
    "opening": "Play {country}'s opening: gain centres.",
    "alliance": "Work with {partner}: both of you are to gain, and neither attacks the other.",
    "crisis": "Keep the centres of {country}.",
    "endgame": "Win the game with {country}: reach 18 centres.",
}
