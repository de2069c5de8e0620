"""A line of play as a document: the engine's saved game, with one key more that the engine ignores.

So every line on disk is a saved game that other commands read, and a saved game from elsewhere becomes a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Annotated, Any

import msgspec

from cluster.evaluation.records.game_origins import game_origin
from cluster.play_server.line import Line, Phase, after_phase, bare_state
from cluster.play_server.seats import PERSON
from cluster.runs.provenance import commit
from grpo_core.errors import one_line
from services.environments.diplomacy.ending import parse_ending
from services.environments.diplomacy.game_origin import ORIGIN_KEY, GameOrigin
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.past_phases import past_phase
from services.environments.diplomacy.saved_game import SavedGameError, check_saved_game
from services.environments.seat_player import SeatPlayer

LINE_KEY = "entente_line"
LARGEST_SEED = 1 << 53
MOST_NAMED = 4  # players of one seat that a saved game names
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Power = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(POWERS)})$")]
_Order = Annotated[str, msgspec.Meta(max_length=60)]


class _Entered(msgspec.Struct):
    """What ``Line`` knows beside the engine's data."""

    id: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    name: Name
    seed: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEED)]
    until: Annotated[str, msgspec.Meta(max_length=4)]
    seats: dict[Power, Name]
    players: Annotated[list[dict[Power, Name]], msgspec.Meta(max_length=1000)]  # of each past phase
    parent: Annotated[int, msgspec.Meta(ge=1)] | None
    entered: dict[Power, Annotated[list[_Order], msgspec.Meta(max_length=200)]]
    submitted: bool
    revision: Annotated[int, msgspec.Meta(ge=0)]


class _Results(msgspec.Struct):
    results: (
        Annotated[
            dict[Annotated[str, msgspec.Meta(max_length=20)], Annotated[list[_Order], msgspec.Meta(max_length=20)]],
            msgspec.Meta(max_length=81),
        ]
        | None
    ) = None


def to_document(line: Line) -> dict[str, Any]:
    """The line as a saved game of the engine, its own data under ``LINE_KEY``."""
    extra = _Entered(
        line.id,
        line.name,
        line.seed,
        line.until,
        dict(line.seats),
        [dict(phase.players) for phase in line.phases[:-1]],
        line.parent,
        {power: list(own) for power, own in line.entered.items()},
        line.submitted,
        line.revision,
    )
    return {**saved_game(line), LINE_KEY: msgspec.to_builtins(extra)}


def line_origin(line: Line, describe: Callable[[str], SeatPlayer]) -> GameOrigin:
    """The record of who played a line; of a seat that changed hands, the names of all in their sequence."""
    seats: dict[str, SeatPlayer] = {}
    for power in POWERS:
        decided = [phase.players.get(power) for phase in line.phases[:-1]]
        names = [name for name, _ in groupby(name for name in [*decided, line.seats[power]] if name)]
        described = [SeatPlayer(PERSON, "person") if name == PERSON else describe(name) for name in names[-MOST_NAMED:]]
        seats[power] = described[-1]
        if len(described) > 1:
            seats[power] = SeatPlayer(one_line(", then ".join(each.player for each in described), 200), "program")
    return game_origin(seats, seed=line.seed, ending=parse_ending(line.until), commit=commit())


def saved_game(line: Line, origin: GameOrigin | None = None) -> dict[str, Any]:
    """The line in the engine's saved-game format, with the record of who played if it is given."""
    phases = [
        {
            "name": phase.name,
            "state": phase.state,
            "orders": {power: list(phase.orders.get(power, ())) if phase.orders else None for power in POWERS},
            "results": {unit: list(words) for unit, words in phase.results.items()},
            "messages": [],
        }
        for phase in line.phases
    ]
    game = {"id": f"line-{line.id}", "map": "standard", "rules": ["NO_PRESS", "POWER_CHOICE"], "phases": phases}
    return game if origin is None else {**game, ORIGIN_KEY: origin.document()}


def from_document(document: Any, name: str) -> Line:
    """The line of a document that ``to_document`` made; raises SavedGameError for others."""
    found = check_saved_game(document, name)
    try:
        extra = msgspec.convert(found.get(LINE_KEY), _Entered)
        parse_ending(extra.until)
        phases = _phases(found, [*extra.players, {}], name)
        if len(extra.players) != len(phases) - 1 or set(extra.seats) != set(POWERS):
            raise ValueError("its players do not fit its phases")
    except ValueError as error:
        raise SavedGameError(f"{name}: not a line of play: {error}") from error
    entered = {power: tuple(own) for power, own in extra.entered.items()}
    return Line(
        extra.id,
        extra.name,
        extra.seed,
        extra.until,
        extra.seats,
        phases,
        extra.parent,
        entered,
        extra.submitted,
        extra.revision,
    )


def loaded_line(document: Any, line_id: int, seats: Mapping[str, str], *, seed: int, until: str, name: str) -> Line:
    """A new line that goes on where a saved game from elsewhere was saved; raises SavedGameError for other files.

    A line has no letters: those of a game with press are left out, and the line's name says so.
    """
    found = check_saved_game(document, name)
    recorded: Any = found.get(LINE_KEY)
    players = recorded.get("players") if isinstance(recorded, dict) else None
    try:
        given = msgspec.convert(players or [], list[dict[Power, Name]])
        phases = _phases(found, [*given, *([{}] * (len(found["phases"]) - len(given)))], name)
    except ValueError as error:
        raise SavedGameError(f"{name}: not a saved game: {error}") from error
    letters = sum(len(sent) for phase in found["phases"] if isinstance(sent := phase.get("messages"), list))
    left_out = f", without its {letters:,} letters" if letters else ""
    return Line(line_id, f"{name[:80]}{left_out}", seed, until, dict(seats), phases)


def _phases(document: Mapping[str, Any], players: list[dict[str, str]], name: str) -> tuple[Phase, ...]:
    """The phases of a checked document; each is set up once in the engine, so that a page can go back to it."""
    phases: list[Phase] = []
    past: tuple[Any, ...] = ()
    *_, last = document["phases"]
    for saved, decided in zip(document["phases"], players, strict=False):
        try:
            state = bare_state(saved["state"])
            phase = Phase(state, past, players=decided)
            if not phase.is_final:
                _ = phase.position
            if saved is not last:
                given = msgspec.convert(saved, _Results).results or {}
                over = past_phase(phase.name, saved.get("orders") or {}, given)
                phase = Phase(state, past, over.orders, over.results, decided)
                past = after_phase(phase, over)
        except Exception as error:  # the engine checks little, so that any kind may come of a file
            raise SavedGameError(f"{name}: phase {saved.get('name')}: {type(error).__name__}: {error}") from error
        if phase.is_final and saved is not last:
            raise SavedGameError(f"{name}: it goes on after its end")
        phases.append(phase)
    return tuple(phases)
