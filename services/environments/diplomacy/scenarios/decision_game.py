"""A game of one decision, which bots play on many times: what it is worth is known far better than from one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.lookahead.simulation import Simulator
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scenarios.saved_positions import SavedPositionGame
from services.environments.diplomacy.scoring.rewards import final_parts
from services.environments.diplomacy.scoring.shares import Outcome, sum_of_squares
from services.environments.playing import Result, Step

PLAYED_ON_BY = ("dumbbot", "greedy")  # one of them has the seat afterwards, drawn for each simulated game


class DecisionGame(SavedPositionGame):
    """Asks one power for the orders of one phase. Their reward is the mean of centres gained in simulated games.

    All games that begin alike meet the same luck in their simulated games, so that what differs between them is owed
    to the orders far more than to chance.
    """

    power = ""
    opponents: tuple[str, ...] = ("dumbbot",)  # one of them has each other seat, drawn for each simulated game
    playouts = 1
    _value: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether the decision is made."""
        return self._value is not None or super().is_done

    def to_act(self) -> tuple[str, ...]:
        """The power that decides."""
        return (self.power,)

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Play the position on with the orders of the power; the position stays."""
        defects = self.set_orders(self.power, actions[self.power])
        self._defective += len(defects)
        others, own = ([make_bot(name) for name in names] for names in (self.opponents, PLAYED_ON_BY))
        simulator = Simulator(self.position, self.power, others, own, self.until_year)
        seeds = [derive_seed(0, "playout", self.start, number) for number in range(self.playouts)]
        self._value = fmean(simulator.centers(self.orders[self.power], seed) for seed in seeds)
        return Step({self.power: {"center_change": self._value - self.centers()[self.power]}}, len(defects))

    def result(self) -> Result:
        """The result of the power, whose centres are the mean of the simulated games; of the others as they stand.

        Raises ``RuntimeError`` before the decision.
        """
        if self._value is None:
            raise RuntimeError(f"{self.start}: {self.power} has not decided yet")
        centers = self.centers()
        outcome = Outcome(centers, "year_limit", (), self.position.year, 1)
        shares = sum_of_squares(centers)
        outcomes = {
            power: {
                "centers": self._value if power == self.power else float(centers[power]),
                "solo": 0.0,
                "draw": 0.0,
                "top": float(centers[power] == max(centers.values())),
                "survived": float(centers[power] > 0),
                "sum_of_squares": shares[power],
                "final_year": float(outcome.final_year),
                "phases": 1.0,
                "defective_orders": float(self._defective),
                **self.press_figures(power),
            }
            for power in POWERS
        }
        return Result(outcomes, {power: final_parts(outcome, power) for power in POWERS}, None)
