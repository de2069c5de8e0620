"""Whole games with press: rounds before movement phases, letters that reach only their readers, and files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from opponents.demonstrations import RecordingPlayer
from opponents.play import play_game
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, rounds_of
from services.environments.diplomacy.press.view import PressPosition, writes_press
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.notation import split
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.diplomacy.text.press_notation import MOST_ITEMS
from services.environments.diplomacy.world import Diplomacy
from services.inference.word_tokenizer import make_word_tokenizer

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "dumbbot", "greedy")
LANGUAGE = PressLanguage()


def make_public_tokenizer() -> PreTrainedTokenizerBase:
    language = PressLanguage(public=True)
    return make_word_tokenizer(language.words(), language.word_pattern, language.joins)


def world(**changed: object) -> Diplomacy:
    return Diplomacy(GameSettings(**{"until_year": 1903, "press_rounds": 2, **changed}))  # type: ignore[arg-type]


def played(names: tuple[str, ...], seed: int, **changed: object) -> DiplomacyGame:
    table = world(**changed)
    game = table.new_game("", "FRANCE", seed)
    seats = {power: table.make_bot(name) for power, name in zip(POWERS, names, strict=True)}
    asyncio.run(play_game(game, seats, seed))
    return game


def test_rounds_of_letters_come_before_movement_orders_alone() -> None:
    game = world().new_game("", "FRANCE", 0)
    acts: list[tuple[str, str]] = []
    while len(acts) < 9:
        talking = not game.takes_time
        acts.append((game.phase, "letters" if talking else "orders"))
        assert all(game.facts(power)["act"] == acts[-1][1] for power in game.to_act())
        view = game.view("FRANCE")
        assert writes_press(view) is talking
        game.step({})
    assert acts[:4] == [("S1901M", "letters"), ("S1901M", "letters"), ("S1901M", "orders"), ("F1901M", "letters")]


def test_a_game_without_press_has_neither_views_nor_facts_of_it() -> None:
    game = Diplomacy(GameSettings()).new_game("", "FRANCE", 0)
    assert game.press is None
    assert game.takes_time
    assert not isinstance(game.view("FRANCE"), PressPosition)
    assert "act" not in game.facts("FRANCE")


def test_silent_players_play_the_same_game_with_press_as_without() -> None:
    names = ("dumbbot", "greedy", "random", "dumbbot", "hold", "greedy", "random")
    with_press, without = played(names, 3), played(names, 3, press_rounds=0)
    assert with_press.hash() == without.hash()
    assert with_press.outcome() == without.outcome()


@pytest.mark.parametrize("seed", range(3))
def test_bots_that_keep_promises_keep_all_and_those_that_break_them_break_most(seed: int) -> None:
    kept = dict.fromkeys(TALKERS, 0)
    broken = dict.fromkeys(TALKERS, 0)
    game = played(TALKERS, seed, until_year=1906)
    assert game.press is not None
    for (giver, _), account in game.press.ledger.accounts.items():
        name = TALKERS[POWERS.index(giver)]
        kept[name] += account.kept
        broken[name] += account.broken
    assert kept["honest"] > 5
    assert kept["keeper"] > 2
    assert broken["honest"] == broken["keeper"] == 0
    assert broken["breaker"] > kept["breaker"]
    assert broken["stabber"] > 0
    assert kept["dumbbot"] == broken["dumbbot"] == kept["greedy"] == broken["greedy"] == 0


def test_bots_that_keep_promises_vote_for_the_draws_that_they_agree_to() -> None:
    game = played(("keeper",) * 3 + ("chatter",) * 4, 1, draw_votes=True, until_year=1910)
    assert game.press is not None
    draws = [
        each for each in game.press.ledger.verdicts if each.promise.kind == "DRAW" and each.promise.giver in POWERS[:3]
    ]
    assert all(each.kept for each in draws)


def test_all_letters_are_in_the_engines_saved_game_and_survive_a_round_trip(tmp_path: Path) -> None:
    game = played(TALKERS, 5)
    game.save(tmp_path / "game.json")
    saved = json.loads((tmp_path / "game.json").read_text())
    messages = [message for phase in saved["phases"] for message in phase["messages"]]
    assert len(messages) > 50
    assert "NO_PRESS" not in saved["rules"]
    times = [message["time_sent"] for message in messages]
    assert times == sorted(set(times))
    for number, phase in enumerate(saved["phases"]):
        rounds = rounds_of([message["time_sent"] for message in phase["messages"]], number)
        assert list(rounds) == sorted(rounds)
        assert set(rounds) == ({0, 1} if phase["messages"] else set())
    assert all(message["phase"].endswith("M") for message in messages)
    again = json.loads(DiplomacyGame.load(tmp_path / "game.json", 1903).saved())
    assert [phase["messages"] for phase in again["phases"]] == [phase["messages"] for phase in saved["phases"]]


def test_a_policy_reads_its_letters_and_promises_in_the_prompt() -> None:
    game = world().new_game("", "FRANCE", 0)
    game.step({"ENGLAND": ("FRANCE PEACE", "GERMANY DMZ NTH"), "FRANCE": ("ENGLAND DMZ ENG",)})
    prompt = LANGUAGE.prompt(game.view("FRANCE"), "FRANCE")
    assert prompt.endswith("; FROM ENGLAND PEACE; TO ENGLAND DMZ ENG; LETTERS 2")
    assert "ENGLAND ACCEPT" in LANGUAGE.slots(game.view("FRANCE"), "FRANCE")[-1].alternatives
    game.step({"FRANCE": ("ENGLAND ACCEPT",)})
    prompt = LANGUAGE.prompt(game.view("FRANCE"), "FRANCE")
    assert prompt.endswith("TO ENGLAND ACCEPT; HOLDS ENGLAND PEACE; OWES ENGLAND PEACE; ORDERS")
    game.step({"ENGLAND": ("F LON - ENG",), "FRANCE": ("A PAR H",)})
    assert "ENGLAND" not in LANGUAGE.prompt(game.view("GERMANY"), "GERMANY").rpartition(")")[2]
    assert "KEPT" not in LANGUAGE.prompt(game.view("FRANCE"), "FRANCE")  # no English unit could reach a French one
    for _ in range(2):
        game.step({})
    game.step({"ENGLAND": ("F ENG - BRE",)})
    assert "; ENGLAND BROKE 1; LETTERS 1" in LANGUAGE.prompt(game.view("FRANCE"), "FRANCE")


def test_letters_are_written_for_every_slot_and_read_again() -> None:
    game = world().new_game("", "FRANCE", 0)
    view = game.view("FRANCE")
    slots = LANGUAGE.slots(view, "FRANCE")
    assert [slot.alternatives[0] for slot in slots] == [
        f"{power} PASS" for power in ("GERMANY", "ITALY", "RUSSIA", "TURKEY", "AUSTRIA", "ENGLAND")
    ]
    said = ("ENGLAND PEACE", "GERMANY WILL A PAR - BUR")
    written = LANGUAGE.written(said, view, "FRANCE")
    assert set(said) <= set(written)
    assert all(line in slot.alternatives for slot, line in zip(slots, written, strict=True))
    assert set(LANGUAGE.parse("\n".join(written), view, "FRANCE").actions) == set(said)
    assert LANGUAGE.parse("England: Hello there\nhow are you?", view, "FRANCE").actions == (
        "ENGLAND Hello there\nhow are you?",
    )
    assert LANGUAGE.notes(view, "FRANCE") == ("",) * 6
    assert {word for slot in slots for line in slot.alternatives for word in split(line)} <= set(LANGUAGE.words())


def test_a_language_without_press_plays_the_same_game_and_says_nothing() -> None:
    plain, game = DiplomacyLanguage(), world().new_game("", "FRANCE", 0)
    view = game.view("FRANCE")
    assert plain.slots(view, "FRANCE") == ()
    game.step({"ENGLAND": ("FRANCE PEACE",)})
    game.step({})
    assert plain.prompt(game.view("FRANCE"), "FRANCE") == plain.prompt(game.position, "FRANCE")
    assert LANGUAGE.without_optional_words().optional_words() == ()
    both = PressLanguage(draw_votes=True)
    votes = DiplomacyLanguage(draw_votes=True)
    for known, expected in (
        (both, both.optional_words()),
        (LANGUAGE, LANGUAGE.optional_words()),  # it talks, and plays on
        (votes, ("DRAW", "PLAY-ON")),
        (DiplomacyLanguage(), ()),
    ):
        tokenizer = make_word_tokenizer(known.words(), known.word_pattern, known.joins)
        assert TokenizedLanguage(both, tokenizer).language.optional_words() == expected


def test_letters_that_cannot_be_delivered_are_defects() -> None:
    game = world().new_game("", "FRANCE", 0)
    step = game.step({"FRANCE": ("ENGLAND PEACE", "ENGLAND DMZ ENG", "FRANCE PEACE", "PRUSSIA hi", EVERYBODY + " hi")})
    assert step.defects == 4
    assert [letter.text for letter in game.view("ENGLAND").press.letters] == ["PEACE"]  # type: ignore[attr-defined]


def test_public_letters_reach_all_where_they_are_allowed() -> None:
    game = world(press_public=True, press_length=20).new_game("", "FRANCE", 0)
    assert game.step({"FRANCE": (f"{EVERYBODY} Peace in our time, my friends!",)}).defects == 0
    for power in POWERS:
        assert [letter.text for letter in game.view(power).press.letters] == ["Peace in our time, m"]  # type: ignore[attr-defined]


def test_a_small_policy_writes_to_all_and_reads_what_others_wrote_to_all() -> None:
    game, language = world(press_public=True).new_game("", "FRANCE", 0), PressLanguage(public=True)
    *_, to_all = language.slots(game.view("FRANCE"), "FRANCE")
    assert to_all.alternatives[:3] == ("GLOBAL PASS", "GLOBAL PEACE", "GLOBAL ALLY AGAINST GERMANY")
    assert "GLOBAL WILL A PAR - BUR" in to_all.alternatives
    step = game.step({"FRANCE": [slot.alternatives[1] for slot in language.slots(game.view("FRANCE"), "FRANCE")]})
    assert step.defects == 0
    own, other = (language.prompt(game.view(power), power) for power in ("FRANCE", "ITALY"))
    assert "; TO GLOBAL PEACE; " in own
    assert "; FROM FRANCE PEACE; GLOBAL FRANCE PEACE; " in other
    assert len(language.slots(game.view("ITALY"), "ITALY")) == 7
    tokenizer = make_word_tokenizer(language.words(), language.word_pattern, language.joins)
    for text in (own, other, *to_all.alternatives):
        assert tokenizer.unk_token_id not in tokenizer.encode(text)
    private = world().new_game("", "FRANCE", 0)
    assert len(language.slots(private.view("FRANCE"), "FRANCE")) == 6


def test_a_tokenizer_without_the_word_for_all_makes_a_policy_that_writes_to_single_powers() -> None:
    game = world(press_public=True).new_game("", "FRANCE", 0)
    tokenizer = make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern, LANGUAGE.joins)
    tokens = TokenizedLanguage(PressLanguage(public=True), tokenizer)
    assert len(tokens.slots(game.view("FRANCE"), "FRANCE") or ()) == 6
    game.step({"FRANCE": ("GLOBAL PEACE", "ITALY PEACE")})
    prompt = tokens.language.prompt(game.view("ITALY"), "ITALY")
    assert "FROM FRANCE PEACE" in prompt
    assert "GLOBAL" not in prompt
    assert tokenizer.unk_token_id not in tokens.prompt(game.view("ITALY"), "ITALY")
    assert "GLOBAL" in TokenizedLanguage(PressLanguage(public=True), make_public_tokenizer()).language.words()


def test_the_mask_has_no_letter_that_the_budget_does_not_allow() -> None:
    game = world(press_budget=9).new_game("", "FRANCE", 0)
    slots = LANGUAGE.slots(game.view("FRANCE"), "FRANCE")
    assert {line.split(" ", 1)[1] for slot in slots for line in slot.alternatives} >= {"PASS", "PEACE", "DMZ BUR"}
    assert max(len(line.split(" ", 1)[1]) for slot in slots for line in slot.alternatives) <= 9


def test_a_prompt_leaves_out_the_oldest_letters_and_keeps_promises() -> None:
    game = world(press_rounds=10).new_game("", "FRANCE", 0)
    others = [power for power in POWERS if power != "FRANCE"]
    for number in range(10):
        lines = ("PEACE", "DMZ BUR", "ALLY AGAINST TURKEY", "PEACE", "DMZ ENG")
        game.step(dict.fromkeys(others, (f"FRANCE {'ACCEPT' if number == 1 else lines[number % 5]}",))
                  | {"FRANCE": tuple(f"{power} PEACE" for power in others)})  # fmt: skip
    said = LANGUAGE.prompt(game.view("FRANCE"), "FRANCE").rpartition(")")[2].removeprefix("; ").split("; ")
    assert len(said) == MOST_ITEMS + 1
    assert said[-1] == "ORDERS"
    assert {f"HOLDS {power} PEACE" for power in others} <= set(said)
    assert said[0].startswith(("FROM ", "TO "))


def test_a_tokenizer_without_the_words_of_press_makes_a_silent_policy() -> None:
    plain = DiplomacyLanguage()
    lacking = make_word_tokenizer(plain.words(), plain.word_pattern, plain.joins)
    knowing = make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern, LANGUAGE.joins)
    view = world().new_game("", "FRANCE", 0).view("FRANCE")
    assert TokenizedLanguage(LANGUAGE, lacking).slots(view, "FRANCE") == ()
    silent = RecordingPlayer(world().make_bot("honest"), TokenizedLanguage(LANGUAGE, lacking))
    shown = asyncio.run(silent.act(view, "FRANCE", 0))
    assert shown.turn is None
    assert shown.actions
    tokens = TokenizedLanguage(LANGUAGE, knowing)
    slots = tokens.slots(view, "FRANCE")
    assert slots is not None
    for number in (0, -1):
        lines = tuple(slot.alternatives[number] for slot in slots)
        ids = [token for line in lines for token in knowing.encode(line + "\n", add_special_tokens=False)]
        assert tokens.actions(slots, ids) == lines
    prompt = tokens.prompt(view, "FRANCE")
    assert knowing.unk_token_id not in prompt


def test_letters_of_a_game_stay_within_the_budget_of_each_power() -> None:
    written = {}
    for budget in (None, 60):
        written[budget] = dict.fromkeys(POWERS, 0)
        for phase in json.loads(played(TALKERS, 3, press_budget=budget, until_year=1902).saved())["phases"]:
            for message in phase["messages"]:
                written[budget][message["sender"]] += len(message["message"])
    assert max(written[60].values()) <= 60
    assert written[60]["AUSTRIA"] > 40  # it is honest and writes as long as it may
    assert written[None]["AUSTRIA"] > 200


def test_a_letter_longer_than_what_is_left_is_no_letter_and_who_has_nothing_left_is_not_asked() -> None:
    game = world(press_budget=10).new_game("", "FRANCE", 0)
    view = game.view("FRANCE")
    assert isinstance(view, PressPosition)
    assert view.press.left == 10
    step = game.step(
        {"FRANCE": ("GERMANY PEACE", "ITALY ALLY AGAINST TURKEY", "ENGLAND PEACE"), "ITALY": ("FRANCE PEACE",)}
    )
    assert step.defects == 0  # it is no mistake of the text
    assert [letter.recipient for letter in game.view("FRANCE").press.letters] == ["GERMANY", "ENGLAND", "FRANCE"]
    assert game.to_act() == tuple(power for power in POWERS if power != "FRANCE")
    assert "may have 10 characters" in PressLanguage().sections(view, "FRANCE")[-1].text
    for _ in range(2):
        game.step(dict.fromkeys(game.to_act(), ("GERMANY PEACE", "ITALY PEACE", "RUSSIA PEACE")))
    assert game.phase == "F1901M"  # nobody has anything left, so that no round follows
    assert game.takes_time
