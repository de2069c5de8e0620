"""Rows of the games that a run saved, and of every decision in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.export.tables import Column
from grpo_core.errors import one_line
from opponents.prompts.policy_prompt import PolicyPrompt
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from services.environments.diplomacy.played_phases import played_phases, saved_phases
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.saved_game import read_saved_game
from services.inference.engine import EngineError
from services.reports.run_report.games.training import FOLDER

_LAST_YEAR = 9999  # none is reached: a saved game is over or not by its own phases

GAMES = (
    Column("game_id", "text", "The engine's name of the game"),
    Column("file", "text", "Where the game is, below the run folder; the engine's own format"),
    Column("seats", "seats", "Who played each power: a bot, or a policy by its run and checkpoint"),
    Column("outcome", "text", "solo, draw, or unfinished: the last year of the game was reached before either"),
    Column("winners", "texts", "The power that won alone, or those that agreed on a draw"),
    Column("final_year", "integer", "The last year with orders"),
    Column("phases", "integer", "Phases in the file"),
    Column("centers", "centers", "Supply centres of each power at the end"),
    Column("centers_by_year", "years", "Supply centres of each power after each year's adjudication; 1900: the start"),
    Column("entente", "text", "JSON: what the file says of its making, such as versions, checksums, seed and commit"),
)
DECISIONS = (
    Column("game_id", "text", "The engine's name of the game"),
    Column("file", "text", "Where the game is, below the run folder"),
    Column("phase", "text", "The engine's short name: S1901M movement, F1902R retreats, W1903A adjustments"),
    Column("power", "text", "Whose decision it was"),
    Column("player", "text", "Who decided: a bot, or a policy by its run and checkpoint"),
    Column("position", "text", "JSON: units, dislodged units with their retreats, and centres of all powers"),
    Column("prompt", "text", "What the run's policy reads of it as this power; null where that does not fit"),
    Column("legal_orders", "integer", "Legal orders of this power's units or builds, each counted once"),
    Column("orders", "texts", "The orders as they were given; a unit without one held or disbanded"),
    Column("centers", "integer", "Supply centres of this power before the decision"),
)
NOT_SAVED = "a saved game does not hold it: it is kept for training games alone, see training_decisions"
LEFT_OUT_OF_DECISIONS = dict.fromkeys(("reward", "return", "advantage"), NOT_SAVED)


@dataclass(frozen=True, slots=True)
class SavedGame:
    """A saved game of a run, and who played it."""

    name: str  # of the file, below the run folder
    document: Mapping[str, Any]
    seats: Mapping[str, str]  # empty: not known

    @property
    def game_id(self) -> str:
        """The engine's name of the game, or the file's."""
        return str(self.document.get("id") or self.name)


def game_files(run_dir: Path) -> list[Path]:
    """List the games that the run's evaluations saved, in the order of their names; kept training games are others."""
    games = run_dir / "games"
    return sorted(path for path in games.rglob("*.json") if (games / FOLDER) not in path.parents)


def read_game(run_dir: Path, path: Path, evaluated: Mapping[str, str]) -> SavedGame:
    """Read one of the run's games; ``evaluated`` maps labels of evaluations to the policy's version.

    Raises SavedGameError if the file is no game.
    """
    DiplomacyGame.load(path, _LAST_YEAR)  # checks more than its form
    document = read_saved_game(path)
    seats = _told_seats(document) or _evaluation_seats(run_dir, path, evaluated)
    return SavedGame(path.relative_to(run_dir).as_posix(), document, seats)


def game_row(game: SavedGame) -> dict[str, Any]:
    """Return a row of ``GAMES``."""
    phases = game.document["phases"]
    states = [phase["state"] for phase in phases]
    played = saved_phases(game.document)
    final_year = int(str(played[-1]["state"]["name"])[1:5]) if played else 1900
    note = str(states[-1].get("note") or "")
    victors = {name.strip() for name in note.partition("Victory by: ")[2].split(",")}
    winners = [power for power in POWERS if power[:3] in victors]
    row: dict[str, Any] = {
        "game_id": game.game_id,
        "file": game.name,
        "outcome": "solo" if len(winners) == 1 else "draw" if winners else "unfinished",
        "winners": winners,
        "final_year": final_year,
        "phases": len(phases),
        "centers": _centers(states[-1]),
        "centers_by_year": [{"year": year, **centers} for year, centers in centers_by_year(states, final_year).items()],
    }
    if game.seats:
        row["seats"] = {power: game.seats.get(power) for power in POWERS}
    if isinstance(told := game.document.get(ORIGIN_KEY), dict):
        row["entente"] = json.dumps(told)
    return row


def decision_rows(game: SavedGame, prompts: PolicyPrompt | None) -> Iterator[dict[str, Any]]:
    """Yield a row of ``DECISIONS`` for each power that had a decision in each phase that was played.

    ``prompts`` writes the run's prompts; None: they are left out.

    Raises SavedGameError if a phase cannot be set up.
    """
    for phase in played_phases(game.document, game.name):
        position = phase.position
        shown = json.dumps(_public(position))
        for power in position.to_move:
            row: dict[str, Any] = {
                "game_id": game.game_id,
                "file": game.name,
                "phase": position.phase,
                "power": power,
                "position": shown,
                "legal_orders": len({order for place in position.orderable[power] for order in position.legal[place]}),
                "orders": list(phase.orders.get(power, ())),
                "centers": len(position.centers[power]),
            }
            if prompts is not None:
                with suppress(EngineError):  # it does not fit the policy's context
                    row["prompt"] = prompts.text(position, power)
            if power in game.seats:
                row["player"] = game.seats[power]
            yield row


def centers_by_year(states: Sequence[Mapping[str, Any]], final_year: int) -> dict[int, dict[str, int]]:
    """Return each power's centres after each year, from a game's states in order; 1900: the start.

    Centres change owner after the fall's retreats: the first state behind them, adjustments or the next spring, tells.
    """
    found: dict[int, dict[str, int]] = {}
    for state in states:
        name = str(state["name"])
        if name[0] == "F" and name[1:5].isdigit():
            continue
        year = final_year if not name[1:5].isdigit() else int(name[1:5]) - (name[0] == "S")
        found.setdefault(year, _centers(state))
    return found


def _centers(state: Mapping[str, Any]) -> dict[str, int]:
    return {power: len(state.get("centers", {}).get(power, ())) for power in POWERS}


def _public(position: Position) -> dict[str, Any]:
    return {
        "units": {power: list(units) for power, units in position.units.items() if units},
        "dislodged": {
            power: {unit: list(places) for unit, places in units.items()}
            for power, units in position.dislodged.items()
            if units
        },
        "centers": {power: list(centers) for power, centers in position.centers.items() if centers},
    }


def _told_seats(document: Mapping[str, Any]) -> dict[str, str]:
    """The players that the file itself names (``GameOrigin``), if any; it may come from elsewhere."""
    told = document.get(ORIGIN_KEY)
    seats = told.get("seats") if isinstance(told, dict) else None
    if not isinstance(seats, dict):
        return {}
    named = {}
    for power in POWERS:
        seat = seats.get(power)
        player = seat.get("player") if isinstance(seat, dict) else None
        if isinstance(player, str):
            named[power] = one_line(player, 200)
    return named


def _evaluation_seats(run_dir: Path, path: Path, evaluated: Mapping[str, str]) -> dict[str, str]:
    """The seats of ``games/<label>-<against>/<POWER>.json``, which the run's evaluations save."""
    folder, power = path.parent.relative_to(run_dir / "games").as_posix(), path.stem
    label, _, against = folder.partition("-")
    if power not in POWERS or not against:
        return {}
    policy = evaluated.get(label, label)
    return {**dict.fromkeys(POWERS, against), power: policy}
