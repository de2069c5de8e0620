"""The phases of a saved game that were played: each position as its players saw it, and their orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.errors import one_line
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, PastPhase, Position
from services.environments.diplomacy.rules.past_phases import past_phase
from services.environments.diplomacy.saved_game import SavedGameError

_LAST_YEAR = 9999  # none is reached: a saved game is over or not by its own phases


@dataclass(frozen=True, slots=True)
class PlayedPhase:
    """A phase of a saved game."""

    position: Position
    orders: Mapping[str, tuple[str, ...]]  # as they were given, by power; powers without orders are left out


def saved_phases(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the phases with decisions of a document that ``read_saved_game`` returned, in the engine's format.

    The last phase in a file is the one in which the game was saved: it is left out if it has no orders yet.
    """
    *phases, last = document["phases"]
    if any((last.get("orders") or {}).values()):
        phases.append(last)
    return [phase for phase in phases if phase["state"]["name"] not in ("COMPLETED", "FORMING")]


def played_phases(document: Mapping[str, Any], name: str) -> Iterator[PlayedPhase]:
    """Yield the phases of ``saved_phases`` in order, each position with what its turn's earlier phases brought.

    ``name`` is the file's, for errors. Raises SavedGameError if a phase cannot be set up.
    """
    past: tuple[PastPhase, ...] = ()
    for phase in saved_phases(document):
        try:
            given = phase.get("orders") or {}
            orders = {power: own for power in POWERS if (own := tuple(given.get(power) or ()))}
            position = DiplomacyGame.from_state(phase["state"], _LAST_YEAR, past).position
            over = past_phase(position.phase, orders, phase.get("results") or {})
        except Exception as error:  # the engine checks little, so that any kind may come of a file
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            raise SavedGameError(f"{name}: phase {phase.get('name')}: {reason}") from error
        past = (over,) if position.kind == "M" else (*past, over)
        yield PlayedPhase(position, orders)
