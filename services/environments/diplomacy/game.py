"""One game on the ``diplomacy`` engine: positions out, checked orders in, an outcome at the end."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diplomacy.engine.message import Message
from diplomacy.utils.constants import DEFAULT_GAME_RULES
from diplomacy.utils.export import to_saved_game_format
from diplomacy.utils.game_phase_data import GamePhaseData

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import one_line
from grpo_core.types import KeyValue
from services.environments.diplomacy.alliances import NO_ALLY, AllianceLog, AllianceYears
from services.environments.diplomacy.game_origin import ORIGIN_KEY, GameOrigin
from services.environments.diplomacy.position import CENTERS_TO_WIN, POWERS, DrawVote, PastPhase, Position, segment
from services.environments.diplomacy.press.letters import sent_at
from services.environments.diplomacy.press.pairs import pair_figures
from services.environments.diplomacy.press.promises import Verdict
from services.environments.diplomacy.press.table import PressRules, PressTable
from services.environments.diplomacy.rules.draw_votes import split_votes
from services.environments.diplomacy.rules.engine_position import read_position
from services.environments.diplomacy.rules.fast_engine import FastGame
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.rules.past_phases import past_phases, winners_of
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game
from services.environments.diplomacy.scoring.rewards import final_parts, phase_parts
from services.environments.diplomacy.scoring.shares import Outcome, places, sum_of_squares
from services.environments.playing import Defect, Game, Result, Standing, Step

for _name in ("diplomacy.utils.jsonable", "diplomacy.utils.parsing"):  # they announce errors that they then raise
    logging.getLogger(_name).setLevel(logging.CRITICAL)
_LAST_YEAR = 9999  # of the engine's phase names
NO_SCENARIO = "none"


class DiplomacyGame(Game):
    """A game that ends after ``until_year`` (adjustments included), at a solo or at a draw.

    With ``quiet_years`` it is a draw of all survivors once no centre has changed hands in so many years. With
    ``draw_votes``, which is set before the first phase, it is one as well when all powers that have movement orders to
    give vote for it in the same phase, which then is not adjudicated. After ``negotiate`` rounds of letters come before
    the orders of each movement phase.
    """

    draw_votes = False
    press: PressTable | None = None  # None: there is no press
    agreed = False  # whether such a vote ended it

    def __init__(
        self,
        until_year: int,
        game_id: str | None = None,
        engine: FastGame | None = None,
        quiet_years: int | None = None,
    ) -> None:
        self.until_year = until_year
        self.quiet_years = quiet_years
        self.origin: GameOrigin | None = None  # who plays; kept in the saved game
        self._engine: Any = engine or FastGame(game_id=game_id)
        self._position: Position | None = None
        self._past: tuple[PastPhase, ...] | None = None  # given with a state; later ones are the engine's
        self._orders: dict[str, tuple[str, ...]] = {}
        self._alliances = AllianceLog()
        self._alliance_years = AllianceYears()  # with press
        # Phases for it, with orders and verdicts; only facts need it.
        self._unobserved: list[tuple[Position, Mapping[str, tuple[str, ...]], tuple[Verdict, ...]]] = []
        self._verdicts: tuple[Verdict, ...] = ()  # on the promises of the phase that was processed last
        self._for_draw: set[str] = set()  # powers that vote for one in this phase
        self._wanted: tuple[str, ...] = ()  # those that did in the latest movement phase
        self._malformed: dict[str, int] = {}  # power -> defects of its text in this step
        self._defective = 0  # orders of all powers that were not legal
        self._changed = self._year() - 1  # the last year in which a centre changed hands, as far as is known

    @property
    def position(self) -> Position:
        """The current phase as plain data, computed once per phase; without legal orders when the game is done."""
        if self._position is None:
            past = self._past if self._past is not None else past_phases(self._engine)
            found = read_position(self._engine, self._phase(), self.is_done, past)
            if self.draw_votes and found.kind == "M" and found.to_move:
                found = replace(found, draw_vote=DrawVote(self._wanted, found.year - 1 - self._changed))
            self._position = found
        return self._position

    @property
    def is_done(self) -> bool:
        """Whether the game has ended."""
        return self._engine.is_game_done or self._year() > self.until_year or self._is_quiet()

    @property
    def phase(self) -> str:
        """The engine's short name of the current phase, "S1901M"."""
        return self.position.phase

    def negotiate(self, rules: PressRules) -> None:
        """Play with press from the next movement phase on; letters are kept among the engine's messages."""
        self.press = PressTable(rules)
        self._engine.remove_rule("NO_PRESS")

    @property
    def _talks(self) -> bool:
        """Whether letters are due now, not orders."""
        return self.press is not None and self.press.is_open(self.position)

    @property
    def takes_time(self) -> bool:
        """Whether this step is one of the game's phases; a round of letters is none."""
        return not self._talks

    def to_act(self) -> tuple[str, ...]:
        """The powers with decisions; in a round of letters all that are still there."""
        return self.press.writers(self.position) if self.press and self._talks else self.position.to_move

    def view(self, power: str) -> Position:
        """The position, which all powers see alike; with press, what this power may read of it as well."""
        return self.position if self.press is None else self.press.view(self.position, power)

    def start_facts(self, power: str) -> dict[str, KeyValue]:  # noqa: ARG002
        """The year in which the game begins, if it has not gone on yet; it is a whole game, not a scenario's."""
        return {"start_year": self.position.year, "scenario": NO_SCENARIO}

    def heard_of_partners(self, power: str) -> Mapping[str, tuple[Position, Position]]:
        """See ``Game.heard_of_partners``; none before letters or without press."""
        table, position = self.press, self.position
        if table is None or self._talks or position.kind != "M" or power not in position.to_move:
            return {}
        return {
            partner: (
                table.known_of(position, partner, power),
                table.known_of(position, partner, power, hears=False),
            )
            for partner in position.to_move
            if partner != power
        }

    def had_it_not_spoken(self, power: str) -> Mapping[str, Position]:
        """See ``Game.had_it_not_spoken``; none before letters or without press."""
        table, position = self.press, self.position
        if table is None or self._talks or position.kind != "M" or power not in position.to_move:
            return {}
        silent = table.without_letters_of(position, power)
        told = table.told(position, power)
        return {partner: silent.view(position, partner) for partner in told if partner in position.to_move}

    def facts(self, power: str) -> dict[str, KeyValue]:
        """The facts of a decision of ``power`` now."""
        for phase in self._unobserved:
            self._alliances.observe(*phase)
        self._unobserved.clear()
        position = self.position
        of_press: dict[str, KeyValue] = {}
        if self.press is not None:
            partners = "+".join(self.press.at_peace(position, power)) or NO_ALLY
            of_press = {"act": "letters" if self._talks else "orders", "at_peace": partners}
        return {
            **of_press,
            "phase": position.phase,
            "segment": segment(position.phase),
            "own_centers": len(position.centers[power]),
            "alliance": self._alliances.fact(position, power),
        }

    def note_defects(self, power: str, defects: Sequence[Defect]) -> None:
        """Count what was wrong in a power's text, for the reward part ``format``; repairs and gaps cost nothing."""
        wrong = sum(each.reason not in ("repaired", "missing") for each in defects)
        if wrong:
            self._malformed[power] = self._malformed.get(power, 0) + wrong

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Take the orders of all powers that have to decide, and adjudicate them; or deliver their letters."""
        malformed = {power: {"format": -float(count)} for power, count in self._malformed.items()}
        self._malformed = {}
        if self._talks:
            return Step(malformed, self._deliver(actions))
        defects = sum(len(self.set_orders(power, orders)) for power, orders in actions.items())
        self._defective += defects
        position, given, before = self.position, self._orders, self.centers()
        self.process()
        self._unobserved.append((position, given, self._verdicts))
        after = self.centers()
        parts = {power: phase_parts(before[power], after[power]) | malformed.get(power, {}) for power in POWERS}
        if self.press is not None and not self.agreed:
            self._alliance_years.add(position, given, self._verdicts)
            changes = {power: after[power] - before[power] for power in POWERS}
            came_of = self.position.past[-1].results if position.kind == "M" else {}
            of_press = self.press.parts(position, given, came_of, changes)
            parts = {power: own | of_press[power] for power, own in parts.items()}
        return Step(parts, defects)

    def press_figures(self, power: str) -> dict[str, float]:
        """The outcomes of ``PRESS_MEASURES`` and ``PAIR_MEASURES``; none without press."""
        if self.press is None:
            return {}
        conduct, years = self.press.conduct, self._alliance_years
        return {**conduct.figures(power), **pair_figures(conduct, years.allied, years.years, power)}

    def _deliver(self, lines: Mapping[str, Sequence[str]]) -> int:
        """Deliver the letters of a round, and return how many lines were none."""
        assert self.press is not None
        letters, defects = self.press.take(self.position, lines)
        for number, letter in enumerate(letters):
            self._engine.add_message(
                Message(
                    sender=letter.sender,
                    recipient=letter.recipient,
                    time_sent=sent_at(len(self._engine.state_history), letter.round, number),
                    phase=letter.phase,
                    message=letter.text,
                )
            )
        return sum(defect.reason == "no_recipient" for defect in defects)

    def result(self) -> Result:
        """Every power's result. Raises ``RuntimeError`` before the end."""
        outcome = self.outcome()
        centers, solo = outcome.centers, outcome.solo
        shares = sum_of_squares(centers, solo)
        outcomes = {
            power: {
                "centers": float(centers[power]),
                "solo": float(solo == power),
                "draw": float(outcome.kind == "draw" and power in outcome.winners),
                "top": float(centers[power] == max(centers.values())),
                "survived": float(centers[power] > 0),
                "sum_of_squares": shares[power],
                "final_year": float(outcome.final_year),
                "phases": float(outcome.phases),
                "defective_orders": float(self._defective),
                **self.press_figures(power),
            }
            for power in POWERS
        }
        standing = Standing(shares, places(centers, solo), solo is not None or min(centers.values()) == 0)
        return Result(outcomes, {power: final_parts(outcome, power) for power in POWERS}, standing)

    def set_orders(self, power: str, orders: Sequence[str]) -> tuple[Defect, ...]:
        """Replace ``power``'s orders by the legal canonical ones among these; returns the others' defects.

        Where players vote on draws, its vote is replaced as well; who does not vote wants to play on.
        """
        if self.position.draw_vote is not None:
            orders, wanted = split_votes(orders)
            (self._for_draw.add if wanted else self._for_draw.discard)(power)
        checked = check(orders, self.position, power)
        self._engine.write_orders(power, checked.actions, self.position)
        self._orders[power] = checked.actions
        return checked.defects

    @property
    def orders(self) -> Mapping[str, tuple[str, ...]]:
        """The legal orders set in this phase so far, by power; units without one hold (or disband)."""
        return self._orders

    def process(self) -> None:
        """Adjudicate and advance to the next phase with decisions, or end by a vote for a draw.

        Raises ``RuntimeError`` when done.
        """
        if self.is_done:
            raise RuntimeError("this game is over; nothing is left to process")
        if self.position.draw_vote is not None:
            self._wanted = tuple(power for power in self.position.to_move if power in self._for_draw)
            self._for_draw.clear()
            self.agreed = self._wanted == self.position.to_move
        if self.press is not None and not self.agreed:
            self._verdicts = self.press.settle(self.position, self._orders, self._wanted)
        if self.agreed:
            self._engine.draw([power for power, count in self.centers().items() if count])
        else:
            year, owners = self._year(), self._owners()
            self._engine.process()
            if self._owners() != owners:
                self._changed = year
        self._position = self._past = None
        self._orders = {}

    def centers(self) -> dict[str, int]:
        """Return the number of supply centres of each power."""
        return {name: len(self._engine.powers[name].centers) for name in POWERS}

    def outcome(self) -> Outcome:
        """Return how the game ended. Raises ``RuntimeError`` before its end."""
        if not self.is_done:
            raise RuntimeError(f"this game is not over: {self._phase()} of {self.until_year} is still to be played")
        centers, phases = self.centers(), len(self._engine.state_history)
        if not self._engine.is_game_done:
            if self._is_quiet():
                survivors = tuple(power for power in POWERS if centers[power])
                return Outcome(centers, "draw", survivors, self._year() - 1, phases)
            return Outcome(centers, "year_limit", (), self.until_year, phases)
        winners = winners_of(self._engine)
        solo = len(winners) == 1 and centers[winners[0]] >= CENTERS_TO_WIN
        return Outcome(centers, "solo" if solo else "draw", winners, int(self._phase()[1:5]), phases)

    def hash(self) -> str:
        """Return the engine's Zobrist hash of units, dislodged units, centres and homes."""
        return str(self._engine.get_hash())

    def state(self) -> dict[str, Any]:
        """Return the engine's state of the current phase, without history (JSON data)."""
        state: dict[str, Any] = self._engine.get_state()
        return state

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        until_year: int,
        past: tuple[PastPhase, ...] = (),
        quiet_years: int | None = None,
    ) -> DiplomacyGame:
        """Return a game that continues another's ``state()``, without history; ``ValueError`` for a finished one.

        ``past`` is that of its first position. Quiet years are counted from there.
        """
        if state["name"] == "COMPLETED":
            raise ValueError("a finished game has no state to go on from")
        game = cls(until_year, quiet_years=quiet_years)
        for piece in ("units", "centers"):  # a power that is not in the state has none
            state = {**state, piece: {power: state.get(piece, {}).get(power, []) for power in POWERS}}
        game._engine.set_state(state)
        game._past = past
        game._changed = game._year() - 1
        return game

    def rename(self, game_id: str) -> None:
        """Give the game another id, under which it is saved."""
        self._engine.game_id = game_id

    def saved(self) -> str:
        """Return the game so far in the engine's saved-game format, one line of JSON.

        ``origin`` is kept beside the engine's data, under ``ORIGIN_KEY``, which the engine ignores.
        """
        document = to_saved_game_format(self._engine)
        if self.origin is not None:
            document[ORIGIN_KEY] = self.origin.document()
        return json.dumps(document)

    def save(self, path: Path | str) -> None:
        """Write ``saved()`` atomically; StorageError if it cannot be written."""
        write_atomically(Path(path), self.saved().encode() + b"\n")

    @classmethod
    def load(cls, path: Path | str, until_year: int) -> DiplomacyGame:
        """Load a saved game at its last phase, without its origin. Raises ``SavedGameError`` for other files."""
        return cls(until_year, engine=_read_saved_game(Path(path)))

    def _year(self) -> int:
        return int(self._phase()[1:5])

    def _owners(self) -> tuple[frozenset[str], ...] | None:
        """The centres of each power; None where nothing depends on them."""
        if self.quiet_years is None and not self.draw_votes:
            return None
        return tuple(frozenset(self._engine.powers[name].centers) for name in POWERS)

    def _is_quiet(self) -> bool:
        return self.quiet_years is not None and self._year() > self._changed + self.quiet_years

    def _phase(self) -> str:
        """Return the short name of the current phase; of a finished game, the phase in which it ended."""
        if not self._engine.is_game_done:
            return str(self._engine.current_short_phase)
        if self._engine.outcome:
            return str(self._engine.outcome[0])
        return str(self._engine.state_history.last_key())


def _read_saved_game(path: Path) -> FastGame:
    saved = read_saved_game(path)
    try:
        engine = FastGame(game_id=saved.get("id"), rules=[*DEFAULT_GAME_RULES, *saved.get("rules", [])])
        engine.set_phase_data([GamePhaseData.from_dict(phase) for phase in saved["phases"]])
        _ = DiplomacyGame(_LAST_YEAR, engine=engine).position
    except Exception as error:  # the engine checks little, so that any kind may come of a file
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise SavedGameError(f"{path}: not a saved game: {reason}") from error
    return engine
