"""A policy that looks ahead plays the best of what is proposed, votes as its samples do, and passes questions on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from services.environments.diplomacy.bots.lookahead.candidates import candidate_sheets
from services.environments.diplomacy.bots.lookahead.lookahead import LookaheadBot
from services.environments.diplomacy.bots.lookahead.policy import LookaheadPolicy
from services.environments.diplomacy.bots.simple_bots import HoldBot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision, PromptedPolicy

Write = Callable[[float, int], tuple[str, ...]]

FEW = ((6, 2), (3, 4))
# Only moves into Spain and Portugal gain centres in this position.
SPANISH = ("A MAR - SPA", "A GAS H", "F MAO - POR")


class Scripted:
    """A policy that writes what a function of its temperature and the number of the call says."""

    def __init__(self, write: Write, temperature: float = 1.0) -> None:
        self.write, self.temperature = write, temperature
        self.seeds: list[int] = []

    def at(self, temperature: float) -> Scripted:
        return Scripted(self.write, temperature)

    def read(self, view: Position, seat: str) -> str:
        return f"{view.phase} {seat}"

    async def act(self, view: Position, seat: str, seed: int) -> Decision:
        self.seeds.append(seed)
        return Decision(self.write(self.temperature, len(self.seeds) - 1))


def autumn() -> Position:
    state = {
        "name": "F1901M",
        "units": {"FRANCE": ["A MAR", "A GAS", "F MAO"], "TURKEY": ["A CON"]},
        "retreats": {},
        "centers": {"FRANCE": ["PAR", "MAR", "BRE"], "TURKEY": ["CON"]},
    }
    return DiplomacyGame.from_state(state, 1999).position


def player(write: Write, language: DiplomacyLanguage | None = None) -> LookaheadPolicy:
    bot = LookaheadBot([HoldBot()], FEW)
    bot._own = (HoldBot(),)  # so that the policy alone thinks of Spain
    return LookaheadPolicy(Scripted(write), language or DiplomacyLanguage(), bot)


def test_the_best_of_the_proposed_sheets_is_played() -> None:
    sheets = {0: ("A GAS - BUR",), 1: SPANISH, 2: ("F MAO - IRI", "A MAR - PIE")}
    policy = player(lambda _, call: sheets[call % 3])
    position = autumn()
    decision = asyncio.run(policy.act(position, "FRANCE", 7))
    inner = policy.policy
    assert isinstance(inner, Scripted)
    assert len(set(inner.seeds)) == 8
    # In the sequence of the sheet's slots; nothing that was looked at is worth more.
    assert sorted(decision.actions) == sorted(SPANISH)
    assert [order.split()[1] for order in decision.actions] == list(position.orderable["FRANCE"])
    assert decision.turn is None
    assert asyncio.run(policy.act(position, "FRANCE", 7)) == decision


def test_proposed_sheets_come_first_and_are_changed_too() -> None:
    position = autumn()
    sheet = DiplomacyLanguage().written(SPANISH, position, "FRANCE")
    found = candidate_sheets(position, "FRANCE", (HoldBot(),), 12, random.Random(1), [sheet])
    assert found[0] == sheet
    assert len(set(found)) == len(found) == 12
    others = [sum(a != b for a, b in zip(each, sheet, strict=True)) for each in found[2:]]
    assert 1 in others  # one order away from what was proposed


def test_nothing_is_asked_where_there_is_nothing_to_decide() -> None:
    policy = player(lambda *_: SPANISH)
    assert asyncio.run(policy.act(autumn(), "ENGLAND", 1)) == Decision(())
    assert isinstance(policy.policy, Scripted)
    assert policy.policy.seeds == []


@pytest.mark.parametrize(("votes", "is_for"), [(4, False), (5, True)])
def test_it_votes_as_most_of_the_samples_do(votes: int, is_for: bool) -> None:
    world = Diplomacy(GameSettings(draw_votes=True))
    position = world.new_game("", "FRANCE", 1).position  # type: ignore[attr-defined]
    policy = player(lambda _, call: ("DRAW",) if call < votes else ("PLAY-ON",), world.language)
    decision = asyncio.run(policy.act(position, "FRANCE", 3))
    assert ("DRAW" in decision.actions) == is_for
    assert len(decision.actions) == 3 + is_for


def test_temperature_prompt_and_probabilities_are_those_of_the_policy() -> None:
    policy = player(lambda temperature, _: SPANISH if temperature == 0 else ())
    cold = policy.at(0.0)
    assert isinstance(policy, PromptedPolicy)
    assert cold.policy.temperature == 0.0  # type: ignore[attr-defined]
    assert policy.policy.temperature == 1.0  # type: ignore[attr-defined]
    assert policy.read(autumn(), "FRANCE") == "F1901M FRANCE"
    assert asyncio.run(policy.specialist("FRANCE")) is policy.policy


def test_a_world_makes_them_and_asks_the_policy() -> None:
    policy = Scripted(lambda *_: ())
    made = Diplomacy(GameSettings()).looking_ahead(policy)
    assert isinstance(made, LookaheadPolicy)
    position = DiplomacyGame(1902).position
    decision = asyncio.run(made.act(position, "TURKEY", 1))
    assert len(policy.seeds) == 8
    assert [order.split()[1] for order in decision.actions] == list(position.orderable["TURKEY"])


def test_a_greedy_policy_is_asked_once() -> None:
    cold = player(lambda *_: SPANISH).at(0.0)
    assert sorted(asyncio.run(cold.act(autumn(), "FRANCE", 1)).actions) == sorted(SPANISH)
    assert isinstance(cold.policy, Scripted)
    assert len(cold.policy.seeds) == 1
    warm = cold.at(0.7)
    asyncio.run(warm.act(autumn(), "FRANCE", 1))
    assert isinstance(warm.policy, Scripted)
    assert len(warm.policy.seeds) == 8
