"""Credit for talk: what letters tell of partners' orders, and how far they move those of their readers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.insight.choices import OrderChoice, order_choices
from opponents.insight.question import InsightError
from opponents.listening.talk_credit import TalkCredit, divergence
from opponents.play import play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.table import PressRules
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import LISTENING, SPEAKING, Decision, Game, Parts, Policy
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.services.inference.torch_backend.cases import perturbed

WORLD = Diplomacy(GameSettings(until_year=1901, press_rounds=2))
LANGUAGE = PressLanguage()
TOKENIZER = make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern, LANGUAGE.joins)
SIZES = PolicySettings(hidden_size=32, layers=2, intermediate_size=32)


@pytest.fixture(scope="module")
def policy() -> LLMPolicy:
    """A random policy with pronounced preferences, which reads and writes press."""
    torch.set_num_threads(1)
    ends = {"eos_id": TOKENIZER.eos_token_id, "bos_id": TOKENIZER.bos_token_id, "pad_id": TOKENIZER.pad_token_id}
    model = make_small_model(SIZES, len(TOKENIZER), **ends, seed=0)
    return LLMPolicy(TorchEngine(perturbed(model)), TokenizedLanguage(LANGUAGE, TOKENIZER))


def negotiated(letters: Mapping[str, tuple[str, ...]]) -> DiplomacyGame:
    """A game in its first movement phase after two rounds; the letters are those of the first."""
    game = WORLD.new_game("", "FRANCE", 0)
    assert isinstance(game, DiplomacyGame)
    game.step(letters)
    game.step({})
    assert game.takes_time
    return game


def decided(game: Game, seats: Mapping[str, Policy]) -> dict[str, Decision]:
    return {power: asyncio.run(seats[power].act(game.view(power), power, 3)) for power in game.to_act()}


def earned(game: Game, credit: TalkCredit, seats: Mapping[str, Policy], seat: str = "FRANCE") -> dict[str, float]:
    return asyncio.run(credit.earned(game, seat, seats, decided(game, seats)))


def test_no_part_is_computed_that_no_weight_names(policy: LLMPolicy) -> None:
    assert TalkCredit.wanted(policy, {"center_change": 1.0, "honesty": 1.0}) is None
    with pytest.raises(InsightError, match=r"the reward part speaking needs probabilities; set inference\.engine"):
        TalkCredit.wanted(WORLD.make_bot("honest"), {SPEAKING: 1.0})
    credit = TalkCredit.wanted(policy, {SPEAKING: 0.0})  # it is logged without being paid
    assert credit is not None
    assert credit.parts == {SPEAKING}


def test_the_divergence_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(5), 2)
        names = tuple("abcde")
        ranks = rng.permutation(5)
        first = OrderChoice(names, tuple(p), 0.0, "a")
        other = OrderChoice(tuple(names[i] for i in ranks), tuple(q[ranks]), 0.0, "a")
        assert divergence(first, other) == pytest.approx(float((p * np.log2(p / q)).sum()))
        assert divergence(first, first) == 0


def test_without_letters_nothing_is_earned_for_talk(policy: LLMPolicy) -> None:
    credit = TalkCredit(policy, frozenset({LISTENING, SPEAKING}))
    assert earned(negotiated({}), credit, dict.fromkeys(POWERS, policy)) == {LISTENING: 0, SPEAKING: 0}


def test_only_readers_of_letters_that_have_probabilities_are_moved(policy: LLMPolicy) -> None:
    credit = TalkCredit(policy, frozenset({SPEAKING}))
    game = negotiated({"FRANCE": ("GERMANY PEACE",), "GERMANY": ("ITALY PEACE",)})
    seats: dict[str, Policy] = {**dict.fromkeys(POWERS, policy), "RUSSIA": WORLD.make_bot("honest")}
    found = earned(game, credit, seats)
    decision = decided(game, seats)["GERMANY"].actions
    silent = negotiated({"GERMANY": ("ITALY PEACE",)})  # the same game in which France had said nothing
    views = game.view("GERMANY"), silent.view("GERMANY")
    with_letter, without = (asyncio.run(order_choices(policy, view, "GERMANY", decision)) for view in views)
    assert found[SPEAKING] == pytest.approx(sum(map(divergence, with_letter, without)) / 6)
    assert found[SPEAKING] > 1e-6
    assert earned(game, credit, {**seats, "GERMANY": WORLD.make_bot("honest")}) == {SPEAKING: 0}
    assert earned(game, credit, seats, "AUSTRIA") == {SPEAKING: 0}  # it wrote nothing


def test_listening_is_what_letters_spare_of_surprise_at_partners_orders(policy: LLMPolicy) -> None:
    credit = TalkCredit(policy, frozenset({LISTENING}))
    game = negotiated({"GERMANY": ("FRANCE WILL A MUN - BUR",), "ITALY": ("AUSTRIA PEACE",)})
    seats = {power: WORLD.make_bot("honest") for power in POWERS}
    orders = decided(game, seats)["GERMANY"].actions
    surprise = []
    for view in game.heard_of_partners("FRANCE")["GERMANY"]:
        choices = asyncio.run(order_choices(policy, view, "GERMANY", orders))
        surprise.append(-sum(np.log2(each.chosen_probability) for each in choices))
    found = earned(game, credit, seats)[LISTENING]
    assert found == pytest.approx((surprise[1] - surprise[0]) / 6)  # France knows nothing of the others' letters
    assert abs(found) > 1e-6


def test_a_power_without_orders_earns_nothing_for_what_it_once_said(policy: LLMPolicy) -> None:
    """Italy broke a promise to France and is gone; France remembers it."""
    units = {"FRANCE": ["A MAR", "A PIE"], "ITALY": ["A VEN"]}
    state = {"name": "F1902M", "units": units, "centers": {"FRANCE": ["MAR"], "ITALY": []}, "retreats": {}}
    game = DiplomacyGame.from_state({**DiplomacyGame(1901).state(), **state}, 1904)
    game.negotiate(PressRules(rounds=1))
    game.step({"FRANCE": ("ITALY PEACE",), "ITALY": ("FRANCE PEACE",)})
    game.step({"FRANCE": ("A PIE H", "A MAR H"), "ITALY": ("A VEN - PIE",)})
    while "ITALY" in game.to_act() or game.position.kind != "M" or not game.takes_time:
        game.step({})
    heard, unheard = game.heard_of_partners("FRANCE"), game.heard_of_partners("ITALY")
    assert not unheard
    assert not game.had_it_not_spoken("ITALY")
    assert not heard  # nobody else is there


def test_orders_that_cannot_be_written_count_nothing(policy: LLMPolicy) -> None:
    game = negotiated({"FRANCE": ("GERMANY PEACE",)})
    seats = dict.fromkeys(POWERS, policy)
    decisions = {**decided(game, seats), "GERMANY": Decision(("A MUN - PAR",))}
    credit = TalkCredit(policy, frozenset({SPEAKING}))
    assert asyncio.run(credit.earned(game, "FRANCE", seats, decisions)) == {SPEAKING: 0}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_of_a_partner_is_no_secret(seed: int) -> None:
    """Nothing between others, nor between the partner and others, is in it; without letters it has no press at all."""
    world = Diplomacy(GameSettings(until_year=1903, press_rounds=2, press_public=True))
    game, rng = world.new_game("", "FRANCE", seed), random.Random(seed)
    talker, letters = world.make_bot("chatter"), 0
    while not game.is_done:
        for reader in POWERS if game.takes_time else ():
            known = game.heard_of_partners(reader)
            for partner, (heard, unheard) in known.items():
                assert heard.press.reader == partner
                for letter in (*heard.press.letters, *heard.press.earlier):
                    assert letter.is_for(reader)
                    assert letter.is_for(partner)
                    letters += 1
                assert {*heard.press.waiting, *heard.press.accounts} <= {reader}
                assert all({each.giver, each.partner} == {reader, partner} for each in heard.press.promises)
                empty = unheard.press
                assert not (*empty.letters, *empty.earlier, *empty.promises, *empty.waiting, *empty.accounts)
        game.step({power: talker.actions(game.view(power), power, rng.randrange(99)) for power in game.to_act()})
    assert letters > 100


@pytest.mark.parametrize("seed", range(3))
def test_had_a_power_not_spoken_is_the_game_in_which_it_did_not(seed: int) -> None:
    """Two games with the same letters, but for those of one power, which it passes over in the second."""
    rng, talker = random.Random(seed), WORLD.make_bot("chatter")
    game, silent = WORLD.new_game("", "FRANCE", seed), WORLD.new_game("", "FRANCE", seed)
    for _ in range(WORLD.settings.press_rounds):
        lines = {power: talker.actions(game.view(power), power, rng.randrange(99)) for power in game.to_act()}
        game.step(lines)
        silent.step({power: own for power, own in lines.items() if power != "FRANCE"})
    found = game.had_it_not_spoken("FRANCE")
    assert found
    for partner, view in found.items():
        assert view == silent.view(partner)
        assert view != game.view(partner)
    assert game.view("GERMANY") == game.view("GERMANY")  # the question changed nothing


class Constant:
    """Pays one for each step that takes time."""

    async def earned(
        self, game: Game, seat: str, seats: Mapping[str, Policy], decisions: Mapping[str, Decision]
    ) -> Parts:
        assert game.takes_time
        assert seat in seats
        assert set(decisions) == set(game.to_act())
        return {SPEAKING: 1.0}


def test_talk_is_paid_at_the_letters_before_the_orders(policy: LLMPolicy) -> None:
    game = WORLD.new_game("", "FRANCE", 1)
    seats: dict[str, Policy] = {power: WORLD.make_bot("honest") for power in POWERS}
    record = asyncio.run(
        play_game(
            game,
            {**seats, "FRANCE": policy},
            1,
            learners=("FRANCE",),
            reward_weights={SPEAKING: 0.5},
            credit=Constant(),
        )
    ).learners["FRANCE"]
    movement = [turn for turn in record.turns if turn.phase.endswith("M")]
    assert [turn.keys["act"] for turn in movement] == ["letters", "letters", "orders"] * 2
    assert [turn.reward for turn in movement[:5]] == [0, 0.5, 0, 0, 0.5]
    assert record.parts[SPEAKING] * 0.5 == pytest.approx(sum(turn.reward for turn in record.turns))
