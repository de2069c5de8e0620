"""What a game counts of its press, the reward parts that come of it, and players whose letters are withheld."""

from __future__ import annotations

import asyncio

import pytest

from opponents.play import play_game
from services.environments.diplomacy.bots.press.silent import MutedPolicy
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.measures.definitions import PRESS_MEASURES
from services.environments.diplomacy.measures.press.conduct import conduct
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.promises import Promise
from services.environments.diplomacy.press.rewards import joint_outcome
from services.environments.diplomacy.press.table import PressRules
from services.environments.diplomacy.press.view import writes_press
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Bot

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "dumbbot", "honest")
PRESS = Diplomacy(GameSettings(until_year=1904, press_rounds=2))
STATE = {
    "name": "F1901M",
    "units": {"FRANCE": ["A BUR", "A MAR"], "GERMANY": ["A MUN", "A KIE"], "ITALY": ["A TYR"]},
    "centers": {"FRANCE": ["MAR"], "GERMANY": ["MUN", "KIE"], "ITALY": ["VEN"]},
    "retreats": {},
}


def negotiated(letters: dict[str, list[str]], orders: dict[str, list[str]]):
    """The reward parts of one phase before which one round of letters was written."""
    game = DiplomacyGame.from_state({**DiplomacyGame(1901).state(), **STATE}, 1905)
    game.negotiate(PressRules(rounds=1))
    game.step(letters)
    return game, game.step(orders).parts


def test_each_tested_promise_that_is_broken_costs_honesty() -> None:
    letters = {"FRANCE": ["GERMANY PEACE"], "GERMANY": ["FRANCE PEACE"], "ITALY": ["GERMANY WILL A TYR H"]}
    _, parts = negotiated(letters, {"FRANCE": ["A BUR - MUN"], "GERMANY": ["A MUN H"], "ITALY": ["A TYR - BOH"]})
    assert {power: parts[power]["honesty"] for power in STATE["units"]} == {"FRANCE": -1, "GERMANY": 0, "ITALY": -1}


def test_an_attack_without_a_promise_costs_nothing() -> None:
    _, parts = negotiated({}, {"FRANCE": ["A BUR - MUN"], "GERMANY": ["A MUN - BUR"]})
    assert {own["honesty"] for own in parts.values()} == {0}


@pytest.mark.parametrize(
    ("orders", "cooperation"),
    [
        ({"FRANCE": ["A BUR S A MUN"], "GERMANY": ["A MUN H"]}, 1),
        ({"FRANCE": ["A BUR S A MUN"], "GERMANY": ["A MUN - SIL"]}, 0),  # the unit did something else
        ({"FRANCE": ["A BUR S A KIE - RUH"], "GERMANY": ["A KIE - RUH"]}, 1),
        ({"FRANCE": ["A BUR S A MUN"], "GERMANY": ["A MUN H", "A KIE S A MUN"]}, 1),
        ({"FRANCE": ["A MAR S A BUR"]}, 0),  # its own
        ({"FRANCE": ["A BUR S A MUN"], "GERMANY": ["A KIE - RUH"], "ITALY": ["A TYR - MUN"]}, 1),
    ],
)
def test_help_for_others_counts_where_it_fits(orders: dict[str, list[str]], cooperation: int) -> None:
    _, parts = negotiated({}, orders)
    assert parts["FRANCE"]["cooperation"] == cooperation


def test_the_gains_of_partners_in_peace_are_joint() -> None:
    """Germany takes Venice in the fall, and France has a peace with it, Italy none."""
    letters = {"FRANCE": ["GERMANY PEACE"], "GERMANY": ["FRANCE PEACE"]}
    orders = {"FRANCE": ["A BUR H"], "GERMANY": ["A MUN H"], "ITALY": ["A TYR - VEN"]}
    _, parts = negotiated(letters, {**orders, "GERMANY": ["A KIE - DEN"]})
    assert parts["GERMANY"]["center_change"] == 1
    assert (parts["FRANCE"]["joint_outcome"], parts["ITALY"]["joint_outcome"]) == (1, 0)
    _, parts = negotiated(letters, {**orders, "FRANCE": ["A BUR - MUN"], "GERMANY": ["A KIE - DEN"]})
    assert parts["FRANCE"]["joint_outcome"] == 0, "a broken peace joins no partner"


def test_who_is_at_peace_is_known_before_each_decision() -> None:
    game = DiplomacyGame(1902)
    game.negotiate(PressRules(rounds=2))
    found = []
    for letters in ({"FRANCE": ["GERMANY PEACE", "ITALY PEACE"]}, {"GERMANY": ["FRANCE ACCEPT"]}, {}):
        found.append([game.facts(power)["at_peace"] for power in ("FRANCE", "GERMANY", "ITALY")])
        game.step(letters)
    found.append([game.facts(power)["at_peace"] for power in ("FRANCE", "GERMANY", "ITALY")])
    assert found[:2] == [["none"] * 3] * 2, "a proposal is no peace, and an answer of this round is not known in it"
    assert found[2] == ["GERMANY", "FRANCE", "none"], "agreed before the orders"
    assert found[3] == ["GERMANY", "FRANCE", "none"], "and in the fall"


def test_joint_outcomes_are_means_over_partners() -> None:
    holding = [Promise("FRANCE", other, "PEACE", "", "S1901M") for other in ("GERMANY", "ITALY")]
    holding += [Promise("FRANCE", "RUSSIA", "DMZ", "BUR", "S1901M"), Promise("ENGLAND", "FRANCE", "ALLY", "X", "")]
    changes = dict.fromkeys(POWERS, 5) | {"GERMANY": 1, "ITALY": -1, "ENGLAND": 3}
    assert joint_outcome(holding, changes, "FRANCE") == 1
    assert joint_outcome(holding, changes, "TURKEY") == 0


def test_a_game_counts_what_its_saved_file_shows(tmp_path) -> None:
    game = PRESS.new_game("", "FRANCE", 3)
    seats = {power: PRESS.make_bot(name) for power, name in zip(POWERS, TALKERS, strict=True)}
    record = asyncio.run(play_game(game, seats, 3, learners=POWERS, reward_weights={}))
    game.save(tmp_path / "game.json")
    saved = conduct(read_saved_game(tmp_path / "game.json"), "game.json")
    assert game.press.conduct.pairs == saved
    for power, outcome in record.result.outcomes.items():
        assert {measure.outcome for measure in PRESS_MEASURES} <= set(outcome)
        given = [own for (acting, _), own in saved.items() if acting == power]
        phases, kept = game.press.conduct.phases[power], sum(own.promises_kept for own in given)
        assert outcome["letters"] == pytest.approx(sum(own.letters for own in given) / phases)
        assert outcome["promises_broken"] == outcome["promises"] - kept
        assert outcome["promises"] == sum(own.promises_kept + own.promises_broken for own in given)
        assert outcome["honesty"] == pytest.approx(kept / outcome["promises"] if outcome["promises"] else 1)
        assert record.learners[power].parts["honesty"] == -sum(own.promises_broken for own in given)
    totals = {name: sum(own[name] for own in record.result.outcomes.values()) for name in ("attacks", "letters")}
    assert min(totals.values()) > 0


class NoteTaker(Bot):
    """Writes to England and to itself."""

    def actions(self, position, power, seed):
        return ("ENGLAND PEACE", "NOTES trust nobody") if writes_press(position) else ()


def test_who_is_muted_keeps_notes() -> None:
    view = PRESS.new_game("", "FRANCE", 1).view("FRANCE")
    assert asyncio.run(MutedPolicy(NoteTaker()).act(view, "FRANCE", 5)).actions == ("NOTES trust nobody",)


def test_letters_to_all_are_letters_as_well() -> None:
    world = Diplomacy(GameSettings(press_rounds=1, press_public=True))
    game = world.new_game("", "FRANCE", 0)
    game.step({"FRANCE": ("GLOBAL hello", "ITALY hello")})
    game.step({})
    assert game.press.conduct.figures("FRANCE")["letters"] == 2


def test_who_is_muted_plays_on_and_writes_nothing() -> None:
    bot = PRESS.make_bot("breaker")
    game = PRESS.new_game("", "FRANCE", 1)
    seats = {power: PRESS.make_bot("honest") for power in POWERS} | {"FRANCE": MutedPolicy(bot)}
    record = asyncio.run(play_game(game, seats, 1))
    assert record.result.outcomes["FRANCE"]["letters"] == 0
    assert record.result.outcomes["ENGLAND"]["letters"] > 0
    view = DiplomacyGame(1901).view("FRANCE")
    assert asyncio.run(MutedPolicy(bot).act(view, "FRANCE", 5)) == asyncio.run(bot.act(view, "FRANCE", 5))


def test_settings_that_need_press_say_so() -> None:
    with pytest.raises(ValueError, match=r"honesty counts in games with press; set press_rounds"):
        Diplomacy(GameSettings(reward={"honesty": 1.0}))
    with pytest.raises(ValueError, match=r"evaluation\.muted: without press there are no letters"):
        Diplomacy(GameSettings()).check_evaluation(DiplomacyEvaluation(muted=True))
    PRESS.check_evaluation(DiplomacyEvaluation(muted=True))
    with pytest.raises(ValueError, match=r"saved_playouts: .* without letters"):
        Diplomacy(GameSettings(press_rounds=1, saved_playouts=5, saved_games="x", saved_share=0.5))


def test_games_from_scenarios_have_press_as_well() -> None:
    world = Diplomacy(GameSettings(press_rounds=1, scenarios=("alliance",), scenario_share=1.0))
    start = next(filter(None, (world.draw_start("FRANCE", seed) for seed in range(50))))
    game = world.new_game(start, "FRANCE", 0)
    seats = {power: world.make_bot("honest") for power in POWERS}
    record = asyncio.run(play_game(game, seats, 0))
    assert record.result.outcomes["FRANCE"]["letters"] > 0


def test_only_worlds_with_press_have_its_facts_and_measures() -> None:
    without = Diplomacy(GameSettings())
    assert {"act", "at_peace"} <= set(PRESS.turn_facts)
    assert not {"act", "at_peace"} & set(without.turn_facts)
    assert {measure.outcome for measure in PRESS.measures} - {measure.outcome for measure in without.measures} == {
        measure.outcome for measure in PRESS_MEASURES
    }


def test_the_summary_of_press_is_by_label_and_opponent() -> None:
    row = {"label": "trained", "against": "honest", "games": 7, "honesty": 0.5, "honesty_ci95": [0.4, 0.6]}
    found = PRESS.press_summary([row, {**row, "label": "muted", "honesty": 1.0}])
    assert found is not None
    assert found["trained"]["honest"]["honesty_ci95"] == [0.4, 0.6]
    assert found["muted"]["honest"]["honesty"] == 1.0
    assert Diplomacy(GameSettings()).press_summary([row]) is None
