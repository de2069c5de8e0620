"""A line of play as plain data: the phases of one game, who decides, and orders that people have entered so far.

Functions return a changed copy and touch nothing else, so that a line that could not be saved has not changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cluster.play_server.seats import PERSON
from grpo_core.seeds import derive_seed
from services.environments.diplomacy.ending import Ending, parse_ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS, PastPhase, Position
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.rules.past_phases import past_phase

COMPLETED = "COMPLETED"
_LAST_YEAR = 9999  # a line's own ending ends it


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase: its state in the engine's form; orders and results are empty until it has been played."""

    state: Mapping[str, Any]
    past: tuple[PastPhase, ...] = ()  # since the latest movement phase, that one first
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    results: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # unit -> what came of its order
    players: Mapping[str, str] = field(default_factory=dict)  # power -> who decided; empty in a loaded game

    @property
    def name(self) -> str:
        """The engine's short name, "S1901M", or "COMPLETED"."""
        return str(self.state["name"])

    @property
    def is_final(self) -> bool:
        """Whether the engine ended the game here: a solo, or a draw after a hundred years."""
        return self.name == COMPLETED

    @cached_property
    def position(self) -> Position:
        """What players see; of a final phase there is none (ValueError)."""
        return DiplomacyGame.from_state(self.state, _LAST_YEAR, self.past).position

    @property
    def centers(self) -> dict[str, tuple[str, ...]]:
        """Owned supply centres by power."""
        return {power: tuple(self.state["centers"].get(power) or ()) for power in POWERS}


@dataclass(frozen=True, eq=False)
class Line:
    """A game, from its start to the present phase, which is the last of ``phases``."""

    id: int
    name: str
    seed: int  # derives the seed of every decision
    until: str  # the last year, or "end"
    seats: Mapping[str, str]  # power -> player, or PERSON
    phases: tuple[Phase, ...]
    parent: int | None = None  # the line that it was forked from
    entered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by power, in sequence; see ``entry``
    submitted: bool = False  # the present phase goes on as soon as all players have answered
    revision: int = 0  # counts changes, so that a page knows whether it shows the newest

    @property
    def present(self) -> Phase:
        """The phase that is to be played, or in which the game ended."""
        return self.phases[-1]

    @property
    def is_over(self) -> bool:
        """Whether the game has reached its ending."""
        if self.present.is_final:
            return True
        ending, year = parse_ending(self.until), _year(self.present)
        return year > ending.until_year or self._is_quiet(ending, year)

    @property
    def people(self) -> tuple[str, ...]:
        """Powers that people play and that still have units or centres."""
        state = self.present.state
        alive = (power for power in POWERS if state["units"].get(power) or state["centers"].get(power))
        return tuple(power for power in alive if self.seats[power] == PERSON)

    @property
    def to_move(self) -> tuple[str, ...]:
        """The powers with decisions in the present phase."""
        return () if self.is_over else self.present.position.to_move

    @property
    def people_to_move(self) -> tuple[str, ...]:
        """The powers with decisions that people play."""
        return tuple(power for power in self.to_move if self.seats[power] == PERSON)

    @property
    def goes_on(self) -> bool:
        """Whether the present phase is played once all players have answered, without a further word of a person.

        It is, if people have submitted, or if they play and have nothing to decide now. Without people it waits to be
        submitted, phase by phase.
        """
        if self.is_over:
            return False
        return self.submitted or bool(self.people and not self.people_to_move)

    def decision_seed(self, power: str) -> int:
        """The seed of a player's decision in the present phase, that of ``play_game`` with the line's seed."""
        return derive_seed(self.seed, "decision", len(self.phases) - 1, power)

    def _is_quiet(self, ending: Ending, year: int) -> bool:
        """Whether no centre has changed hands in the ending's number of quiet years."""
        if ending.quiet_years is None:
            return False
        owners = self.present.centers
        changed = next((phase for phase in reversed(self.phases) if _owned(phase) != _sets(owners)), None)
        first = _year(self.phases[0]) - 1 if changed is None else _year(changed)
        return year > first + ending.quiet_years


def new_line(line_id: int, seats: Mapping[str, str], *, seed: int, until: str, name: str = "") -> Line:
    """A line at the standard opening; ValueError for an ending that ``parse_ending`` refuses."""
    parse_ending(until)
    state = DiplomacyGame(_LAST_YEAR).state()
    return Line(line_id, name or f"Game {line_id}", seed, until, dict(seats), (Phase(bare_state(state)),))


def bare_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an engine's state that the game depends on; units of powers that are missing are none."""
    tables = ("units", "retreats", "centers", "homes", "influence")
    kept = {name: {power: (state.get(name) or {}).get(power) or [] for power in POWERS} for name in tables}
    kept["retreats"] = {power: (state.get("retreats") or {}).get(power) or {} for power in POWERS}
    if not state.get("homes"):
        del kept["homes"]
    return {"name": str(state["name"]), "note": state.get("note") or "", **kept}


def played(phase: Phase, orders: Mapping[str, tuple[str, ...]], players: Mapping[str, str]) -> tuple[Phase, Phase]:
    """Adjudicate a phase: the phase with its orders and results, and the one that follows."""
    game = DiplomacyGame.from_state(phase.state, _LAST_YEAR, phase.past)
    for power, own in orders.items():
        game.set_orders(power, own)
    game.process()
    done, following = json.loads(game.saved())["phases"]
    over = past_phase(phase.name, done["orders"] or {}, done["results"] or {})
    after = replace(phase, orders=over.orders, results=over.results, players=dict(players))
    return after, Phase(bare_state(following["state"]), after_phase(after, over))


def after_phase(phase: Phase, over: PastPhase) -> tuple[PastPhase, ...]:
    """The past phases that are seen in the phase after ``phase``."""
    return (over,) if phase.name.endswith("M") else (*phase.past, over)


def advance(line: Line, orders: Mapping[str, tuple[str, ...]]) -> Line:
    """The line after its present phase, with the orders of all powers to move."""
    players = {power: line.seats[power] for power in line.to_move}
    done, following = played(line.present, orders, players)
    return replace(line, phases=(*line.phases[:-1], done, following), entered={}, submitted=False)


def fork(line: Line, index: int, line_id: int, *, seed: int) -> Line:
    """A new line that goes on from phase ``index`` of another, whose phases after it are left out.

    Orders that people gave there are entered again, so that one of them can be changed. With the seed of ``line`` the
    players answer as they did; with another one they decide again.
    """
    phase = line.phases[index]
    entered = dict(line.entered)
    if index < len(line.phases) - 1:
        people = (power for power in POWERS if line.seats[power] == phase.players.get(power) == PERSON)
        given = {power: check(phase.orders.get(power, ()), phase.position, power).actions for power in people}
        entered = {power: own for power, own in given.items() if own}
    present = replace(phase, orders={}, results={}, players={})
    name = f"{line.name.split(', from ')[0]}, from {phase.name} ({line_id})"
    return Line(
        line_id, name[:100], seed, line.until, dict(line.seats), (*line.phases[:index], present), line.id, entered
    )


def ending_text(line: Line) -> str:
    """How a game that is over has ended, in a sentence."""
    centers = {power: len(own) for power, own in line.present.centers.items()}
    most = max(centers.values())
    leaders = " and ".join(power.capitalize() for power in POWERS if centers[power] == most)
    if line.present.is_final and most >= CENTERS_TO_WIN:
        return f"{leaders} wins with {most} centres."
    ending = parse_ending(line.until)
    if not line.present.is_final and _year(line.present) > ending.until_year:
        return f"{ending.until_year} is over: {leaders} {'leads' if ' and ' not in leaders else 'lead'} with {most}."
    return f"A draw of all survivors; {leaders} {'has' if ' and ' not in leaders else 'have'} {most} centres."


def _year(phase: Phase) -> int:
    return 9999 if phase.is_final else int(phase.name[1:5])


def _owned(phase: Phase) -> dict[str, frozenset[str]]:
    return _sets(phase.centers)


def _sets(centers: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    return {power: frozenset(own) for power, own in centers.items()}
