"""What partners write takes a bounded room in chat prompts, and none from the board while letters can be shortened."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import TokenizedLanguage
from opponents.prompts.chat_template import ChatTemplate
from opponents.prompts.policy_prompt import ChatPrompt, messages_of
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, NOTES
from services.environments.diplomacy.press.promises import Promise
from services.environments.diplomacy.press.proposals import Proposal
from services.environments.diplomacy.press.view import PressPosition, with_press
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.language import Section
from services.settings import InferenceSettings
from tests.chat_models import chat_tokenizer
from tests.unit.services.environments.diplomacy.press.games import hostile_text, random_orders, whole_games
from tests.unit.services.environments.diplomacy.press.test_press_games import world

LANGUAGE = PressLanguage()
TEMPLATE = ChatTemplate(chat_tokenizer())
BOARD = ("rules", "press rules", "country", "position", "last orders", "moves of other powers", "legal orders", "draw")
ALL_CUTS = len(LANGUAGE.cuts)
SHORT_LETTERS = LANGUAGE.cuts.index("all but the latest letters") + 1  # the cuts that leave the board whole
MOST_CHARACTERS = 5600  # of letters, promises and proposals after these cuts, public letters included; notes aside
MOST_TOKENS = 100  # by which a prompt with letters may be longer than one without, after all cuts


def tokens(parts: Sequence[Section]) -> int:
    return len(TEMPLATE.ids(TEMPLATE.text(messages_of(parts))))


def board(parts: Sequence[Section]) -> list[Section]:
    return [part for part in parts if part.name in BOARD]


def talked(seed: int, longest: int, *, public: bool) -> Iterator[tuple[PressPosition, PressPosition, str]]:
    """Some of a power's views of a random game in which all write hostile letters, and of the same one without."""
    rng = random.Random(seed)
    reader = rng.choice(POWERS)
    rules = {"press_length": longest, "press_public": public, "until_year": 1902 if longest <= 1000 else 1901}
    game, silent = (world(**rules).new_game("", "FRANCE", 0) for _ in range(2))
    while not game.is_done:
        if game.takes_time:
            orders = {power: random_orders(game.position, power, rng) for power in game.to_act()}
            game.step(orders)
            silent.step(orders)
        else:
            game.step(hostile_letters(game, reader, rng, longest, public=public))
            silent.step({})
        if not game.is_done and reader in game.to_act() and rng.random() < 0.4:
            yield game.view(reader), silent.view(reader), reader  # type: ignore[misc]


def hostile_letters(
    game: DiplomacyGame, reader: str, rng: random.Random, longest: int, *, public: bool
) -> dict[str, list[str]]:
    """One to the reader from each other power, and one to all; the reader agrees to everything and takes notes."""
    lines = {}
    for power in game.to_act():
        view = game.view(power)
        assert isinstance(view, PressPosition)
        if power == reader:
            lines[power] = [f"{other} ACCEPT" for other in POWERS if other != reader]
            lines[power].append(f"{NOTES} {hostile_text(view, rng.choice(POWERS), rng, longest)}")
        else:
            lines[power] = [f"{reader} {hostile_text(view, reader, rng, longest)}"]
            lines[power] += [f"{EVERYBODY} {hostile_text(view, reader, rng, longest)}"] if public else []
    return lines


@whole_games
@given(st.integers(0, 1 << 32), st.sampled_from([1000, 10_000]), st.booleans())
def test_whatever_is_written_a_prompt_fits_where_one_without_letters_does(
    seed: int, longest: int, public: bool
) -> None:
    for with_letters, without, reader in talked(seed, longest, public=public):
        assert [with_letters.phase, with_letters.units] == [without.phase, without.units]
        # Where one would fit, with the letters after all cuts, which are the same but for the mention of orders.
        shortest = min(tokens(LANGUAGE.sections(without, reader, cut=cut)) for cut in range(ALL_CUTS + 1))
        budget = shortest + MOST_TOKENS
        assert len(ChatPrompt(LANGUAGE, TEMPLATE, budget, thinking=False).ids(with_letters, reader)) <= budget
        assert LANGUAGE.sections(with_letters, reader, cut=ALL_CUTS) == LANGUAGE.sections(without, reader, cut=ALL_CUTS)


@whole_games
@given(st.integers(0, 1 << 32), st.sampled_from([1000, 10_000]), st.booleans())
def test_letters_are_shortened_before_anything_of_the_board_is_left_out(seed: int, longest: int, public: bool) -> None:
    for with_letters, without, reader in talked(seed, longest, public=public):
        whole = board(LANGUAGE.sections(without, reader))
        for cut in range(ALL_CUTS + 1):
            parts = LANGUAGE.sections(with_letters, reader, cut=cut)
            assert board(parts) == board(LANGUAGE.sections(without, reader, cut=cut))
            assert board(parts) == whole or cut > SHORT_LETTERS
        short, silent = (LANGUAGE.sections(view, reader, cut=SHORT_LETTERS) for view in (with_letters, without))
        sizes = [sum(len(part.text) for part in parts if part.name != "notes") for parts in (short, silent)]
        assert sizes[0] - sizes[1] <= MOST_CHARACTERS
        # So the board stays whole wherever there is room for it and for so much, whatever the length of letters.
        budget = tokens(LANGUAGE.sections(without, reader)) + tokens(short) - tokens(silent)
        chosen = ChatPrompt(LANGUAGE, TEMPLATE, budget, thinking=False).text(with_letters, reader)
        assert all(part.text in chosen for part in whole)


def test_floods_of_promises_from_four_partners_leave_the_board_in_a_prompt_of_usual_length() -> None:
    settings = InferenceSettings(max_completion_length=512)
    prompts = TokenizedLanguage(
        LANGUAGE, chat_tokenizer(), PolicySettings(prompt="chat", context_length=4096), settings
    ).prompts
    game = world().new_game("", "FRANCE", 0)
    for start in ("ASK", "WILL"):
        lines = {}
        for power in ("AUSTRIA", "ENGLAND", "GERMANY", "RUSSIA"):
            said = [line for slot in LANGUAGE.slots(game.view(power), power) for line in slot.alternatives]
            flood = "\n".join(line[7:] for line in said if line.startswith(f"FRANCE {start}"))
            lines[power] = [f"FRANCE {flood[:1000].rpartition(chr(10))[0]}"]
        before = game.view("FRANCE")
        game.step(lines)
        view = game.view("FRANCE")
        shown = prompts.text(view, "FRANCE")
        assert all(part.text in shown for part in board(LANGUAGE.sections(before, "FRANCE")))
        assert "AUSTRIA" in shown.partition("Letters before these orders:")[2]


def test_the_latest_promises_and_proposals_are_listed_and_the_others_counted() -> None:
    view = world().new_game("", "FRANCE", 0).view("FRANCE")
    assert isinstance(view, PressPosition)
    moves = [order for place in ("LON", "LVP", "EDI") for order in view.legal[place]]
    promises = [Promise("ENGLAND", "FRANCE", "ORDER", order, view.phase) for order in moves]
    asked = [Proposal("ASK", order) for place in ("BRE", "PAR", "MAR") for order in view.legal[place]]
    press = replace(
        view.press,
        promises=(Promise("ENGLAND", "FRANCE", "PEACE", "", view.phase), *promises),
        waiting={"ENGLAND": (Proposal("DMZ", "BUR"), *asked)},
    )
    for cut, most in ((0, 8), (SHORT_LETTERS, 3)):
        parts = {part.name: part.text for part in LANGUAGE.sections(with_press(view, press), "FRANCE", cut=cut)}
        said = [f"WILL {order}" for order in moves[1 - most :]]
        more = f"PEACE and {len(moves) + 1 - most} more"
        assert parts["promises"] == f"ENGLAND has promised you: {', '.join(said)}, {more}"
        said = [proposal.text for proposal in asked[1 - most :]]
        waits = f"ENGLAND waits for your answer to: {', '.join(said)}, DMZ BUR and {len(asked) + 1 - most} more"
        assert parts["what to write"].split("\n")[0] == waits
