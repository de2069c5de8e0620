"""Probabilities of sheets and orders against every legal sheet's exact probability."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict

import numpy as np
import pytest

from opponents.insight.choices import order_choices
from opponents.insight.question import InsightError, thought_of
from opponents.insight.sheets import frequent_sheets, likeliest_sheets
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.world import Diplomacy
from services.environments.language import Language
from services.inference.thoughts import ThoughtFormat
from tests.unit.opponents.insight.cases import (
    exact_probabilities,
    legal_sheets,
    peaked_policy,
    small_decisions,
)
from tests.unit.opponents.played_games import played_positions


@pytest.mark.parametrize(("temperature", "notes"), [(1.0, False), (0.5, False), (1.0, True)])
def test_the_likeliest_sheets_are_those_of_all_legal_ones(temperature: float, notes: bool) -> None:
    policy, model = peaked_policy(temperature, notes=notes)
    for position, power in small_decisions():
        exact = exact_probabilities(policy, model, position, power, temperature)
        assert math.isclose(sum(exact.values()), 1, abs_tol=1e-6)
        together: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for sheet, probability in exact.items():
            together[tuple(sorted(sheet))] += probability
        wide = asyncio.run(likeliest_sheets(policy, position, power, len(exact)))
        assert {tuple(sorted(choice.orders)) for choice in wide} == set(together)
        for choice in wide:
            assert choice.probability == pytest.approx(together[tuple(sorted(choice.orders))], abs=1e-5)
        best = sorted(together.values(), reverse=True)[:5]
        few = asyncio.run(likeliest_sheets(policy, position, power))
        assert [choice.probability for choice in few] == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(("temperature", "notes"), [(1.0, False), (0.5, False), (1.0, True)])
def test_choices_along_a_sheet_are_conditional_probabilities(temperature: float, notes: bool) -> None:
    policy, model = peaked_policy(temperature, notes=notes)
    for position, power in small_decisions():
        exact = exact_probabilities(policy, model, position, power, temperature)
        for sheet in legal_sheets(Diplomacy.language.slots(position, power))[:: len(exact) // 3]:
            choices = asyncio.run(order_choices(policy, position, power, sheet))
            assert tuple(choice.chosen for choice in choices) == sheet
            for number, choice in enumerate(choices):
                before = {each: p for each, p in exact.items() if each[:number] == sheet[:number]}
                mass = sum(before.values())
                for order, probability in zip(choice.orders, choice.probabilities, strict=True):
                    wanted = sum(p for each, p in before.items() if each[number] == order) / mass
                    assert probability == pytest.approx(wanted, abs=1e-4)
                assert {each[number] for each in before} == set(choice.orders)
                assert sum(choice.probabilities) == pytest.approx(1, abs=1e-6)
                assert list(choice.probabilities) == sorted(choice.probabilities, reverse=True)
                entropy = -sum(p * math.log(p) for p in choice.probabilities if p)
                assert choice.entropy == pytest.approx(entropy, abs=1e-6)
            assert math.prod(c.chosen_probability for c in choices) == pytest.approx(exact[sheet], abs=1e-5)


@pytest.mark.parametrize("notes", [False, True])
def test_a_sheet_is_as_probable_as_the_engine_that_wrote_it_says(notes: bool) -> None:
    policy, _ = peaked_policy(notes=notes)

    async def compare() -> None:
        checked = 0
        for position in played_positions("random", 1903, 3)[::2]:
            for power in position.to_move:
                decision = await policy.act(position, power, 7)
                assert decision.turn is not None
                choices = await order_choices(policy, position, power, decision.actions)
                logprob = sum(math.log(choice.chosen_probability) for choice in choices)
                assert logprob == pytest.approx(float(decision.turn.logprobs.sum()), abs=1e-3)
                checked += len(choices)
                sheets = await likeliest_sheets(policy, position, power, 3)
                assert all(0 < sheet.probability <= 1 for sheet in sheets)
                assert sum(sheet.probability for sheet in sheets) <= 1 + 1e-9
                for sheet in sheets[:1]:
                    assert (
                        tuple(choice.chosen for choice in await order_choices(policy, position, power, sheet.orders))
                        == sheet.orders
                    )
        assert checked > 50

    asyncio.run(compare())


def test_incomplete_sheets_are_completed_and_illegal_ones_refused() -> None:
    policy, _ = peaked_policy()
    position = played_positions("random", 1901, 0)[0]
    choices = asyncio.run(order_choices(policy, position, "FRANCE", ["A PAR - BUR"]))
    assert [choice.chosen for choice in choices] == ["A MAR H", "A PAR - BUR", "F BRE H"]
    for wrong in (["A PAR - MOS"], ["A LON H"], ["A PAR H", "A PAR - BUR"]):
        with pytest.raises(InsightError, match="not legal orders of FRANCE"):
            asyncio.run(order_choices(policy, position, "FRANCE", wrong))


def test_greedy_policies_are_judged_at_temperature_one() -> None:
    position, power = small_decisions("R")[0]
    policy, _ = peaked_policy()
    sampled, greedy = (asyncio.run(likeliest_sheets(each, position, power)) for each in (policy, policy.at(0.0)))
    assert sampled == greedy
    best = asyncio.run(policy.at(0.0).act(position, power, 1))
    assert best.actions == greedy[0].orders


def test_frequent_sheets_are_shares_of_seeds() -> None:
    position = played_positions("random", 1901, 0)[0]
    bot = make_bot("random")
    sheets = frequent_sheets(bot, position, "ITALY", range(200))
    assert sum(sheet.probability for sheet in sheets) == pytest.approx(1)
    wanted = sum(set(bot.actions(position, "ITALY", seed)) == set(sheets[0].orders) for seed in range(200))
    assert sheets[0].probability == wanted / 200
    probabilities = [sheet.probability for sheet in sheets]
    assert probabilities == sorted(probabilities, reverse=True)
    assert frequent_sheets(bot, position, "ITALY", range(200)) == sheets
    holding = frequent_sheets(make_bot("hold"), position, "ITALY", range(5))
    assert [sheet.probability for sheet in holding] == [1.0]


def test_probabilities_after_a_thought_are_those_of_the_sheet_that_followed_it() -> None:
    policy, _ = peaked_policy()
    opening, closing = policy.tokens.text_ids("A PAR"), policy.tokens.text_ids("A BUR")
    policy.tokens.thought = ThoughtFormat(opening, None, (), closing, max_tokens=6)
    position = played_positions("random", 1901, 0)[0]

    async def compare() -> None:
        for seed in (1, 2):
            decision = await policy.act(position, "FRANCE", seed)
            assert decision.turn is not None
            thought = thought_of(policy, decision)
            assert thought == await policy.thought(position, "FRANCE", seed)
            assert thought[: len(opening)] == opening
            assert thought[-len(closing) :] == closing
            choices = await order_choices(policy, position, "FRANCE", decision.actions, thought=thought)
            thinking = (
                len(decision.turn.admissible_offsets) - 1 - np.count_nonzero(np.diff(decision.turn.admissible_offsets))
            )
            written = decision.turn.logprobs[decision.turn.trained_mask][thinking:].sum()
            assert sum(math.log(choice.chosen_probability) for choice in choices) == pytest.approx(written, abs=1e-3)
        first = await policy.thought(position, "FRANCE", 0)
        assert await likeliest_sheets(policy, position, "FRANCE") == await likeliest_sheets(
            policy, position, "FRANCE", thought=first
        )

    asyncio.run(compare())


def test_free_text_has_no_legal_orders_to_tell_of() -> None:
    policy, _ = peaked_policy()

    class Essay(Language):
        def slots(self, view: object, seat: str) -> None:
            return None

        def words(self) -> tuple[str, ...]:
            return ()

        def prompt(self, view: object, seat: str) -> str:
            return "?"

    policy.tokens.language = Essay()
    with pytest.raises(InsightError, match="free text"):
        asyncio.run(likeliest_sheets(policy, None, "plain"))


def test_engines_without_probabilities_are_named() -> None:
    policy, _ = peaked_policy()
    policy.engine = object()  # type: ignore[assignment]
    position = played_positions("random", 1901, 0)[0]
    with pytest.raises(InsightError, match="torch"):
        asyncio.run(likeliest_sheets(policy, position, "FRANCE"))
