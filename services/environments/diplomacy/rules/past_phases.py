"""What is over in the engine's game: its past phases, and who won."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.environments.diplomacy.position import POWERS, PastPhase


def past_phase(
    phase: str, orders: Mapping[str, Sequence[str] | None], results: Mapping[str, Sequence[Any]]
) -> PastPhase:
    """Make a past phase from the engine's records of it, or from those of a saved game."""
    ordered = {power: tuple(sorted(orders.get(power) or ())) for power in POWERS}
    came_of = {unit: tuple(word for each in found if (word := str(each))) for unit, found in results.items()}
    return PastPhase(
        phase,
        {power: own for power, own in ordered.items() if own},
        {unit: words for unit, words in came_of.items() if words},
    )


def past_phases(engine: Any) -> tuple[PastPhase, ...]:
    """Return the phases since the latest movement phase, that one first."""
    past: list[PastPhase] = []
    for phase, orders in engine.order_history.reversed_items():
        past.append(past_phase(str(phase), orders, engine.result_history[phase]))
        if past[-1].phase.endswith("M"):
            break
    return tuple(reversed(past))


def winners_of(engine: Any) -> tuple[str, ...]:
    """Return the engine's winners; a loaded game has only its note, 'Victory by: FRA, GER'."""
    if engine.outcome:
        return tuple(sorted(engine.outcome[1:]))
    _, _, names = str(engine.note).partition("Victory by: ")
    short = {name.strip() for name in names.split(",")}
    return tuple(name for name in POWERS if name[:3] in short)
