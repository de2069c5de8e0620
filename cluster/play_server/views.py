"""What the page is told of lines, as JSON data. Orders of players are told only once the phase is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.play_server.entry import effective
from cluster.play_server.line import Line, Phase, ending_text
from cluster.play_server.rounds import Round
from cluster.play_server.seats import PERSON
from cluster.play_server.table import Table
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WAIVE


def session_view(table: Table, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """All lines in short, the players that can be seated, and what a new game begins with."""
    return {
        "powers": POWERS,
        "person": PERSON,
        "players": [{"name": name, "kind": source.kind} for name, source in table.players.sources.items()],
        "defaults": defaults,
        "problems": table.problems,
        "lines": [
            {
                "id": line.id,
                "name": line.name,
                "parent": line.parent,
                "phase": line.present.name,
                "people": [power for power in POWERS if line.seats[power] == PERSON],
                "over": line.is_over,
            }
            for line in table.lines.values()
        ],
    }


def line_view(line: Line, answers: Round | None, since: int) -> dict[str, Any]:
    """A line: its past phases from number ``since`` on, and all of the present one."""
    return {
        "id": line.id,
        "name": line.name,
        "parent": line.parent,
        "seed": line.seed,
        "until": line.until,
        "revision": line.revision,
        "seats": line.seats,
        "count": len(line.phases) - 1,
        "since": since,
        "past": [_phase_view(phase) for phase in line.phases[since:-1]],
        "present": {
            **_phase_view(line.present),
            "over": ending_text(line) if line.is_over else None,
            "submitted": line.submitted,
            "watching": not line.people,
            "waiting": list(line.people_to_move),
            "answers": _answers_view(line, answers),
            "decisions": {power: _decision_view(line, power) for power in line.people_to_move},
        },
    }


def _phase_view(phase: Phase) -> dict[str, Any]:
    state = phase.state
    units = {power: [unit for unit in state["units"].get(power) or () if unit[0] != "*"] for power in POWERS}
    dislodged = {power: dict(state["retreats"].get(power) or {}) for power in POWERS}
    return {
        "phase": phase.name,
        "units": units,
        "dislodged": {power: places for power, places in dislodged.items() if places},
        "centers": phase.centers,
        "influence": {power: state["influence"].get(power) or [] for power in POWERS},
        "orders": phase.orders,
        "results": phase.results,
        "players": phase.players,
    }


def _answers_view(line: Line, answers: Round | None) -> dict[str, dict[str, str]]:
    """How far each power to move is; of people, that they are asked."""
    found: dict[str, dict[str, str]] = {}
    for power in line.to_move:
        if line.seats[power] == PERSON:
            found[power] = {"state": "ready" if line.submitted else "person", "problem": ""}
            continue
        answer = None if answers is None else answers.answers.get(power)
        state = "thinking" if answer is None else answer.state
        found[power] = {"state": state, "problem": "" if answer is None else answer.problem}
    return found


def _decision_view(line: Line, power: str) -> dict[str, Any]:
    position = line.present.position
    places = position.orderable[power]
    entered = line.entered.get(power, ())
    return {
        "kind": position.kind,
        "places": places,
        "legal": {place: [order for order in position.legal[place] if order != WAIVE] for place in places},
        "owed": position.adjustments[power],
        "orders": effective(position, power, entered),
        "entered": len(entered),
    }
