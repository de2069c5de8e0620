"""Lines of play for tests: bots answer at once, people give the first legal order of each unit."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.play_server.line import Line, advance, new_line
from cluster.play_server.seats import PERSON
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import POWERS


def seats(default: str = "dumbbot", **others: str) -> dict[str, str]:
    return {**dict.fromkeys(POWERS, default), **others}


def line_of(until: str = "1910", seed: int = 7, **named: str) -> Line:
    return new_line(1, seats(**named), seed=seed, until=until)


def answers(line: Line) -> dict[str, tuple[str, ...]]:
    """The orders of all powers to move; a person's units hold, disband or are not built."""
    position = line.present.position
    return {
        power: ()
        if line.seats[power] == PERSON
        else make_bot(line.seats[power]).actions(position, power, line.decision_seed(power))
        for power in line.to_move
    }


def play_on(line: Line, phases: int, changes: Mapping[str, tuple[str, ...]] | None = None) -> Line:
    """Play some phases, or to the end; ``changes`` replace answers in the first."""
    for _ in range(phases):
        if line.is_over:
            break
        line = advance(line, {**answers(line), **(changes or {})})
        changes = None
    return line
