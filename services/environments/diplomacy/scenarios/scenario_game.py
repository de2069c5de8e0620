"""The game of a scenario: it begins at its position, ends at its horizon, and records what scores depend on."""

from __future__ import annotations

from dataclasses import replace

from grpo_core.errors import one_line
from grpo_core.types import KeyValue
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.scenarios.scenario import Scenario, ScenarioError, phase_number
from services.environments.diplomacy.scenarios.scores import Owned, PlayedMoves, ScenarioRecord, score
from services.environments.playing import Result


class ScenarioGame(DiplomacyGame):
    """A game of one scenario; ``begin`` makes it."""

    scenario: Scenario

    @classmethod
    def begin(cls, scenario: Scenario, game_id: str | None = None) -> ScenarioGame:
        """Set up the position. Raises ScenarioError if the board has no such unit or centre, or none can decide."""
        _check_places(scenario)
        try:
            game = cls.from_state(scenario.state(), scenario.year)
        except Exception as error:  # the engine checks little, so that any kind may come of a file
            raise ScenarioError(f"{scenario.id}: {type(error).__name__}: {one_line(error, 200)}") from error
        assert isinstance(game, ScenarioGame)
        game.scenario = scenario
        game._moves = []
        game._autumns = []
        if game_id is not None:
            game.rename(game_id)
        if scenario.country not in game.position.to_move:
            raise ScenarioError(f"{scenario.id}: {scenario.country} has nothing to decide in {scenario.phase}")
        return game

    @property
    def is_done(self) -> bool:
        """Whether the horizon is over, or the game has ended before."""
        return super().is_done or phase_number(self._phase()) > phase_number(self.scenario.horizon)

    @property
    def position(self) -> Position:
        """The current phase, with the task of the country."""
        fresh = self._position is None
        found = super().position
        if fresh:
            self._position = found = replace(found, tasks={self.scenario.country: self.scenario.task})
        return found

    def start_facts(self, power: str) -> dict[str, KeyValue]:
        """The year and the scenario in which the game begins, which is the position that it was forked from."""
        return {**super().start_facts(power), "scenario": self.scenario.id, "fork": self.scenario.id}

    def result(self) -> Result:
        """Every power's result, without places: a position that is not even says nothing about the players' strength.

        Raises ``RuntimeError`` before the end.
        """
        return replace(super().result(), standing=None)

    def process(self) -> None:
        """Adjudicate, as ``DiplomacyGame`` does."""
        before, orders = self.position, dict(self.orders)
        super().process()
        if before.kind == "M":
            results = self._engine.result_history[before.phase]
            told = {str(unit): tuple(str(each) for each in found if str(each)) for unit, found in results.items()}
            self._moves.append(PlayedMoves(before, orders, told))
        if before.season == "F" and (self._engine.is_game_done or self._phase()[0] != "F"):
            self._autumns.append(self._owned())

    def record(self) -> ScenarioRecord:
        """What was played so far."""
        return ScenarioRecord(tuple(self._moves), tuple(self._autumns) or (self._owned(),), self.position)

    def score(self) -> float:
        """The score of the country, 0 to 1. Raises ``RuntimeError`` before the end."""
        if not self.is_done:
            raise RuntimeError(f"{self.scenario.id} is not over: {self._phase()} is still to be played")
        return score(self.scenario, self.record())

    def _owned(self) -> Owned:
        return {name: tuple(self._engine.powers[name].centers) for name in POWERS}

    _moves: list[PlayedMoves]
    _autumns: list[Owned]


def _check_places(scenario: Scenario) -> None:
    """Raise ScenarioError for a unit or centre that the map does not have."""
    board = standard_map()
    dislodged = [unit for own in scenario.retreats.values() for unit in own]
    for unit in (*(unit for own in scenario.units.values() for unit in own), *dislodged):
        if not board.is_valid_unit(unit):
            raise ScenarioError(f"{scenario.id}: units: {unit} cannot stand on the map")
    _check_in(scenario, "centers", [name for own in scenario.centers.values() for name in own], set(board.scs))
    provinces = {place.upper()[:3] for place in board.locs}
    _check_in(scenario, "score.provinces", scenario.score.provinces, provinces)
    for power, other in scenario.others.items():
        _check_in(scenario, f"others.{power}", (*other.stays_out_of, *other.into), provinces)


def _check_in(scenario: Scenario, key: str, names: tuple[str, ...] | list[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise ScenarioError(f"{scenario.id}: {key}: the map has no {name}")
