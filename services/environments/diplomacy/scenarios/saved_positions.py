"""Positions of saved games as starting positions of training games: drawn by share, mixed with whole games."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from grpo_core.errors import one_line
from grpo_core.seeds import derive_seed
from grpo_core.types import KeyValue
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.played_phases import saved_phases
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game
from services.environments.playing import Result

PREFIX = "saved:"  # of the names of these starts: saved:FILE:PHASE
SAVED = "saved"  # what is told of them where others tell a scenario
_TRIES = 100  # files that are looked at for one in which the wanted player had the country


class SavedPositionGame(DiplomacyGame):
    """A game that goes on from a position of a saved game."""

    start = ""  # its name, by which its group is known

    def start_facts(self, power: str) -> dict[str, KeyValue]:
        """The year in which it begins, and the position that it was forked from."""
        return {**super().start_facts(power), "scenario": SAVED, "fork": self.start}

    def result(self) -> Result:
        """Every power's result, without places: a position that is not even says nothing about the players' strength.

        Raises ``RuntimeError`` before the end.
        """
        found = super().result()
        return Result(found.outcomes, found.parts, None)


_Kind = TypeVar("_Kind", bound=SavedPositionGame)


def saved_files(folder: str) -> tuple[Path, ...]:
    """The saved games of a folder. Raises SavedGameError if it has none, or the first cannot be read."""
    files = tuple(sorted(Path(folder).glob("*.json")))
    if not files:
        raise SavedGameError(f"game.saved_games: {folder} holds no *.json file")
    read_saved_game(files[0])
    return files


def draw(folder: str, players: Collection[str], share: float, last_year: int, country: str, seed: int) -> str:
    """The name of a movement phase in which ``country`` has units, in ``share`` (0 to 1) of the seeds; else "".

    All files are equally likely, then all such phases up to ``last_year``. With ``players``, only files count in which
    one of them played the country.

    Raises SavedGameError if no such phase is found in a hundred files.
    """
    rng = random.Random(derive_seed(seed, "saved"))
    if rng.random() >= share:
        return ""
    files = _listed(folder)
    for _ in range(_TRIES):
        file = rng.choice(files)
        game = _positions(file)
        phases = [phase for phase in game.phases.get(country, ()) if int(phase[1:5]) <= last_year]
        if phases and (not players or game.seats.get(country) in players):
            return f"{PREFIX}{file.name}:{rng.choice(phases)}"
    who = f" played by {one_line(', '.join(players), 80)}" if players else ""
    raise SavedGameError(f"game.saved_games: {folder} has no game with {country}{who} among {_TRIES} that were drawn")


def begin(
    start: str,
    folder: str,
    kind: type[_Kind],
    *,
    until_year: int,
    quiet_years: int | None,
    years: int | None,
    game_id: str | None,
) -> _Kind:
    """The game of a start that ``draw`` drew. With ``years`` it ends so many years later, if not before.

    Raises SavedGameError if the position cannot be set up.
    """
    name, _, phase = start.removeprefix(PREFIX).rpartition(":")
    state = _positions(Path(folder) / name).states.get(phase)
    if state is None:
        raise SavedGameError(f"game.saved_games: {folder}/{name} has no phase {phase}; were its files changed?")
    last = until_year if years is None else min(until_year, int(phase[1:5]) + years - 1)
    try:
        game = kind.from_state(state, last, quiet_years=quiet_years)
    except Exception as error:  # the engine checks little, so that any kind may come of a file
        raise SavedGameError(
            f"{folder}/{name}: phase {phase}: {one_line(f'{type(error).__name__}: {error}', 200)}"
        ) from error
    assert isinstance(game, kind)
    game.start = start
    if game_id is not None:
        game.rename(game_id)
    return game


class _Positions:
    """The movement phases of a saved game."""

    def __init__(self, file: Path) -> None:
        document = read_saved_game(file)
        found = [phase["state"] for phase in saved_phases(document) if phase["name"].endswith("M")]
        self.states: Mapping[str, Mapping[str, Any]] = {state["name"]: state for state in found}
        self.seats = seated_players(document)
        self.phases: dict[str, list[str]] = {}  # by country: those in which it has units
        for state in found:
            for country, units in state.get("units", {}).items():
                if units:
                    self.phases.setdefault(country, []).append(state["name"])


_listed = lru_cache(maxsize=4)(saved_files)
_positions = lru_cache(maxsize=256)(_Positions)
