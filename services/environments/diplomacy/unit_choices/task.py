"""Diplomacy as a task of numbered choices: all seven powers learn, or one among six bots.

A phase has as many steps as the power with most units to decide on; in each, all powers that have another one choose
its order at once. After the last of them the phase is adjudicated, and each power earns the centres that it has gained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from grpo_core.seeds import derive_seed
from grpo_core.types import BoolArray, FloatArray, KeyValue
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import WAIVE, sheet
from services.environments.diplomacy.unit_choices import numbering, observation
from services.environments.playing import Bot, Slot
from services.environments.tensor_task import Action, Actions, TensorGame, TensorTask

UNTIL_YEAR = 1905
_STARTING_CENTERS = {power: 4 if power == "RUSSIA" else 3 for power in POWERS}
_MOST_UNITS = 17


class UnitChoices(TensorTask):
    """Games to the end of ``until_year``; the fact ``country`` says who learns where six are bots."""

    seats = POWERS
    measured_episodes = 70  # so that each country plays ten

    def __init__(
        self,
        name: str = "diplomacy",
        opponent: str | None = None,
        until_year: int = UNTIL_YEAR,
        *,
        random_return: float = 0.9,
        goal: float = 5.0,
    ) -> None:
        """``opponent`` is a bot that plays the six other powers; None: all seven powers learn."""
        self.random_return, self.goal = random_return, goal
        self.name = name
        self._opponent = opponent
        self._until_year = until_year
        self.observation_size = observation.size()
        self.actions = Actions(numbering.count())
        self.longest = (until_year - 1900) * 5 * _MOST_UNITS

    def make(self) -> TensorGame:
        """Make an instance."""
        return UnitChoicesGame(self._until_year, None if self._opponent is None else make_bot(self._opponent))


@dataclass(slots=True)
class _Sheet:
    """The sheet of one power in one phase, as far as it is written."""

    slots: tuple[Slot, ...]
    written: list[str] = field(default_factory=list)
    choices: dict[int, str] = field(default_factory=dict)  # of the present slot, by number

    @property
    def is_full(self) -> bool:
        return len(self.written) == len(self.slots)


class UnitChoicesGame(TensorGame):
    """One game after another."""

    def __init__(self, until_year: int, opponent: Bot | None) -> None:
        self._until_year, self._opponent = until_year, opponent
        self._game = DiplomacyGame(until_year)
        self._sheets: dict[str, _Sheet] = {}
        self._learns: tuple[str, ...] = POWERS
        self._seed = 0

    @property
    def position(self) -> Position:
        """The present position, which all powers see."""
        return self._game.position

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """Begin a game; the power that learns among bots is the seed's remainder, so that all take turns."""
        self._game, self._seed = DiplomacyGame(self._until_year), seed
        self._learns = POWERS if self._opponent is None else (POWERS[seed % len(POWERS)],)
        self._begin_phase()
        return {} if self._opponent is None else {"country": self._learns[0]}

    @property
    def to_act(self) -> tuple[str, ...]:
        """The powers with another unit to decide on."""
        return tuple(power for power, each in self._sheets.items() if not each.is_full)

    def observation(self, seat: str) -> FloatArray:
        """See ``observation.observed``."""
        found = self._sheets.get(seat)
        unit = None
        ordered: tuple[str, ...] = ()
        if found is not None and not found.is_full and self.position.kind != "A":
            unit = _unit(next(iter(found.choices.values())))
            ordered = tuple(map(_unit, found.written))
        return observation.observed(self.position, seat, unit, ordered)

    def legal(self, seat: str) -> BoolArray:
        """The orders of the present unit."""
        mask = np.zeros(numbering.count(), np.bool_)
        found = self._sheets.get(seat)
        if found is not None and not found.is_full:
            mask[list(found.choices)] = True
        return mask

    def orders(self, seat: str) -> Mapping[int, str]:
        """The legal orders of the present unit by their numbers."""
        return dict(self._sheets[seat].choices)

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Write an order of each power that acts; when all sheets are full, the phase is adjudicated."""
        for seat, action in chosen.items():
            written = self._sheets[seat]
            written.written.append(written.choices[int(action)])
            self._offer(written)
        if self.to_act:
            return {}
        return self._adjudicate()

    @property
    def figures(self) -> Mapping[str, float]:
        """Centres at the end and the share of the sum of squared centres, mean over the powers that learn."""
        held = {power: len(centers) for power, centers in self.position.centers.items()}
        squares = sum(count**2 for count in held.values())
        own = [held[power] for power in self._learns]
        return {"centers": fmean(own), "squares": fmean(count**2 / squares for count in own)}

    def _adjudicate(self) -> Mapping[str, float]:
        before = self.position.centers
        orders = {power: tuple(each.written) for power, each in self._sheets.items()}
        self._play(orders)
        self._begin_phase()
        after = self.position.centers
        return {power: float(len(after[power]) - len(before[power])) for power in self._learns}

    def _begin_phase(self) -> None:
        """Write out the sheets of the next phase in which a power that learns decides; others pass by."""
        while not self._game.is_done:
            acting = [power for power in self._game.to_act() if power in self._learns]
            self._sheets = {power: _Sheet(sheet(self.position, power)) for power in acting}
            if acting:
                for each in self._sheets.values():
                    self._offer(each)
                return
            self._play({})
        self._sheets = {}

    def _play(self, orders: Mapping[str, tuple[str, ...]]) -> None:
        """Give the orders of all powers, those of bots included, and adjudicate."""
        given = dict(orders)
        for number, power in enumerate(self._game.to_act()):
            if power not in given:
                assert self._opponent is not None
                seed = derive_seed(self._seed, self.position.phase, number)
                given[power] = self._opponent.actions(self.position, power, seed)
        self._game.step(given)

    def _offer(self, written: _Sheet) -> None:
        """Number the choices of the next slot; what the sheet claims already cannot be chosen again."""
        if written.is_full:
            written.choices = {}
            return
        slot = written.slots[len(written.written)]
        claimed = _claims(written)
        pairs = zip(slot.alternatives, slot.claims, strict=True)
        free = [order for order, claim in pairs if claim is None or claim not in claimed]
        written.choices = numbering.numbered(free, adjusts=self.position.kind == "A")


def _claims(written: _Sheet) -> set[str]:
    claims: dict[str, str | None] = {}
    for slot in written.slots:
        claims.update(zip(slot.alternatives, slot.claims, strict=True))
    return {claim for order in written.written if (claim := claims[order]) is not None}


def _unit(order: str) -> str:
    return " ".join(order.split()[:2]) if order != WAIVE else WAIVE
