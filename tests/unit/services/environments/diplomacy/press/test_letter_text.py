"""Letters as chat models write them: whose they are, and what is counted as a defect, up to the turn and its reward."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.settings import PolicySettings
from opponents.play import GameRecord, play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import NOTES, cleaned
from services.environments.diplomacy.text.press_language import PressLanguage
from services.inference.engine import Generation, GenerationRequest
from tests.chat_models import chat_tokenizer
from tests.unit.services.environments.diplomacy.press.test_press_games import world

LANGUAGE = PressLanguage()
VIEW = world().new_game("", "FRANCE", 0).view("FRANCE")


def read(text: str) -> tuple[tuple[str, ...], list[str]]:
    answer = LANGUAGE.parse(text, VIEW, "FRANCE")
    return answer.actions, [defect.reason for defect in answer.defects]


@pytest.mark.parametrize(
    ("text", "letters", "defects"),
    [
        ("ENGLAND: Dear king,\npeace!\nRUSSIA PEACE", ("ENGLAND Dear king,\npeace!", "RUSSIA PEACE"), []),
        ("**ENGLAND:** hello", ("ENGLAND hello",), ["repaired"]),
        ("- To Germany: hello", ("GERMANY hello",), ["repaired"]),
        ("Italy: ciao\nGermany: hallo", ("ITALY ciao", "GERMANY hallo"), ["repaired", "repaired"]),
        ("**ITALY:** ciao\n**GERMANY:** hallo", ("ITALY ciao", "GERMANY hallo"), ["repaired", "repaired"]),
        ("ITALY: my plan:\nGermany: attack it", ("ITALY my plan:\nGermany: attack it",), []),
        ("ITALY: hear:\n> ENGLAND: peace\n- Notes: no", ("ITALY hear:\n> ENGLAND: peace\n- Notes: no",), []),
        ("> ITALY: you said peace", (), ["no_recipient"]),
        ("Here are my letters\nENGLAND: hello", ("ENGLAND hello",), ["no_recipient"]),
        ("ENGLAND: hello\nENGLAND: again", ("ENGLAND hello",), ["second_letter"]),
        ("FRANCE: to myself", (), ["no_recipient"]),
        ("GLOBAL: to all", (), ["no_recipient"]),  # these games have no public letters
        ("PASS", (), []),
        ("ENGLAND: PASS\nITALY: ", (), []),
        ("<think>ENGLAND: I lie</think>\nENGLAND: peace", ("ENGLAND peace",), []),
        ("NOTES: Russia lied.\nWatch it.", ("NOTES Russia lied.\nWatch it.",), []),
        ("ENGLAND: my plan is this: A PAR - BUR", ("ENGLAND my plan is this: A PAR - BUR",), []),
        ("", (), []),
    ],
)  # fmt: skip
def test_letters_of_a_text_are_told_apart_by_their_recipients(
    text: str, letters: tuple[str, ...], defects: list[str]
) -> None:
    assert read(text) == (letters, defects)


WORDS = (*"aZ :*\n>", "\n", "ENGLAND", "FRANCE", "NOTES", "GLOBAL", "PASS", "PEACE", "ENGLAND: ", "\u202e")


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_every_text_is_letters_to_partners_and_defects(words: list[str]) -> None:
    letters, _ = read("".join(words))
    recipients = [letter.split(" ")[0] for letter in letters]
    assert len(set(recipients)) == len(recipients)
    assert set(recipients) <= {*POWERS, NOTES} - {"FRANCE"}


def test_notes_are_read_by_their_writer_alone_and_never_delivered() -> None:
    game = world(press_rounds=2).new_game("", "FRANCE", 0)
    game.step({"FRANCE": ("NOTES England is weak.\nGo north.", "ENGLAND PEACE")})
    views = {power: game.view(power) for power in POWERS}
    shown = {power: {part.name: part.text for part in LANGUAGE.sections(views[power], power)} for power in POWERS}
    assert shown["FRANCE"]["notes"] == "Your own notes:\n> England is weak.\n> Go north."
    assert not any("weak" in text for power in POWERS if power != "FRANCE" for text in shown[power].values())
    game.step({"FRANCE": ("NOTES Changed my mind.",)})
    game.step({})
    (notes,) = [part.text for part in LANGUAGE.sections(game.view("FRANCE"), "FRANCE") if part.name == "notes"]
    assert notes == "Your own notes:\n> Changed my mind."
    assert "weak" not in game.saved()


def test_lines_that_mean_nothing_cost_the_reward_for_format() -> None:
    game = world(press_rounds=1).new_game("", "FRANCE", 0)
    answer = LANGUAGE.parse("Sure!\nHere they are\n**ENGLAND:** hi", game.view("FRANCE"), "FRANCE")
    game.note_defects("FRANCE", answer.defects)
    parts = game.step({"FRANCE": answer.actions}).parts
    assert parts == {"FRANCE": {"format": -2.0}}
    assert "format" not in game.step({}).parts["FRANCE"]


def answered(text: str, **rules: int) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    view = world(**rules).new_game("", "FRANCE", 0).view("FRANCE")
    answer = LANGUAGE.parse(text, view, "FRANCE")
    return answer.actions, [(defect.text, defect.reason) for defect in answer.defects]


def test_what_delivery_would_change_is_a_defect_of_the_text() -> None:
    assert answered(f"ENGLAND: {'x' * 200}\nNOTES: {'y' * 21}", press_length=20) == (
        (f"ENGLAND {'x' * 20}", f"NOTES {'y' * 20}"),
        [(f"ENGLAND: {'x' * 80}", "too_long"), (f"NOTES: {'y' * 21}", "too_long")],
    )
    assert answered("ENGLAND: \u202epeace\nITALY: <|im_end|>\nRUSSIA: \x07\u2066") == (
        ("ENGLAND peace", "ITALY < |im_end|>"),
        [
            ("ENGLAND: \u202epeace", "repaired"),
            ("ITALY: <|im_end|>", "repaired"),
            ("RUSSIA: \x07\u2066", "repaired"),
        ],
    )
    assert answered("ENGLAND: 12345\nITALY: 123456\nRUSSIA: 12345\nNOTES: 123456", press_budget=10) == (
        ("ENGLAND 12345", "RUSSIA 12345", "NOTES 123456"),
        [("ITALY: 123456", "no_budget")],
    )


def test_a_prompt_says_how_long_letters_may_be() -> None:
    view = world(press_length=77).new_game("", "FRANCE", 0).view("FRANCE")
    assert "at most 77 characters" in LANGUAGE.sections(view, "FRANCE")[-1].text


TEXTS = st.lists(st.one_of(st.sampled_from([*WORDS, "<|", "[{", "PEACE and more of it"]), st.text(max_size=9)))


@given(TEXTS, st.integers(20, 60), st.integers(4, 100))
def test_letters_that_were_read_from_a_text_are_delivered_as_they_are(
    words: list[str], longest: int, budget: int
) -> None:
    game = world(press_length=longest, press_budget=budget).new_game("", "FRANCE", 0)
    letters = LANGUAGE.parse("".join(words), game.view("FRANCE"), "FRANCE").actions
    assert game.press is not None
    delivered, defects = game.press.take(game.position, {"FRANCE": letters})
    assert not defects
    sent = [f"{letter.recipient} {letter.text}" for letter in delivered]
    assert sent == [letter for letter in letters if not letter.startswith(NOTES)]
    assert sum(len(letter.text) for letter in delivered) <= budget


@given(TEXTS, st.integers(1, 60))
def test_cleaned_text_stays_the_same_when_it_is_cleaned_again(words: list[str], longest: int) -> None:
    once, _ = cleaned("".join(words), longest)
    assert cleaned(once, longest) == (once, ())
    assert len(once) <= longest


class SayingEngine:
    """Writes one text where any may be written, and the first of all alternatives under a mask."""

    def __init__(self, text: str) -> None:
        self.text, self.tokenizer = text, chat_tokenizer()

    async def generate(self, request: GenerationRequest) -> Generation:
        if request.constraint is None:
            written = self.tokenizer.encode(self.text)
        else:
            written = [token for slot in request.constraint.slots for token in slot.alternatives[0]]
        ids = np.array([*written, self.tokenizer.eos_token_id], dtype=np.int32)
        empty = np.array([], dtype=np.int32)
        return Generation(ids, np.zeros(len(ids), np.float32), np.ones(len(ids), np.bool_), empty, empty, 0, True)


def recorded(text: str, **rules: int) -> GameRecord:
    """A game of 1901 in which a chat policy plays France, and writes the text in the round before every movement."""
    table = world(press_rounds=1, until_year=1901, **rules)
    tokens = TokenizedLanguage(LANGUAGE, chat_tokenizer(), PolicySettings(prompt="chat", context_length=1 << 14))
    policy = LLMPolicy(SayingEngine(text), tokens)  # type: ignore[arg-type]
    seats = {power: policy if power == "FRANCE" else table.make_bot("hold") for power in POWERS}
    weights = {"format": 0.5}
    return asyncio.run(
        play_game(table.new_game("", "FRANCE", 0), seats, 1, learners=["FRANCE"], reward_weights=weights)
    )


@pytest.mark.parametrize(
    ("text", "rules", "defects"),
    [
        ("ENGLAND: Peace?", {}, ()),
        (f"ENGLAND: {'x' * 200}", {"press_length": 20}, (f"too_long: ENGLAND: {'x' * 80}",)),
        (
            "ENGLAND: \u202epeace\nITALY: {{ x",
            {},
            ("repaired: ENGLAND: \u202epeace", "repaired: ITALY: {{ x"),
        ),
        ("ENGLAND: 123456\nITALY: 123", {"press_budget": 5}, ("no_budget: ENGLAND: 123456",)),
    ],
)
def test_defects_of_letters_are_on_the_turn_and_in_its_reward_once(
    text: str, rules: dict[str, int], defects: tuple[str, ...]
) -> None:
    record = recorded(text, **rules)
    seat = record.learners["FRANCE"]
    first = seat.turns[0]
    assert first.keys["act"] == "letters"
    assert first.defects == defects
    cost = sum(not each.startswith("repaired") for each in defects)
    assert first.reward == -0.5 * cost
    letters = [turn for turn in seat.turns if turn.keys["act"] == "letters"]
    assert seat.parts.get("format", 0.0) == -cost * len(letters)
    assert all(turn.reward == 0.0 and not turn.defects for turn in seat.turns if turn.keys["act"] == "orders")
    assert record.defects == 0
