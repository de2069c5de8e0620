"""Chat prompts: what they hold, what is cut when they are too long, and that recorded games give the same ones."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import load_config
from cluster.errors import ConfigError
from grpo_core.settings import PolicySettings
from opponents.demonstrations import RecordingPlayer, saved_demonstrations
from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from opponents.players.llm_policy import TokenizedLanguage
from opponents.prompts.policy_prompt import messages_of
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import sheet
from services.environments.diplomacy.settings import DiplomacyImitation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.inference.engine import EngineError
from services.settings import InferenceSettings
from tests.chat_models import chat_tokenizer
from tests.unit.opponents.played_games import played_positions
from tests.unit.services.inference.chat_endpoint.endpoint_server import answer, serving

TOKENIZER = chat_tokenizer()
LANGUAGE = Diplomacy.language
SECTIONS = ("rules", "country", "position", "last orders", "moves of other powers", "legal orders")
SECTIONS = ("rules", "country", "position", "last orders", "moves of other powers", "legal orders")


def chat_tokens(context_length: int = 1 << 14, **inference: int) -> TokenizedLanguage:
    settings = InferenceSettings.model_validate({"max_completion_length": 512, **inference})
    return TokenizedLanguage(
        LANGUAGE, TOKENIZER, PolicySettings(prompt="chat", context_length=context_length), settings
    )


POSITIONS = played_positions("greedy", 1904, seed=3)


@pytest.mark.parametrize("thinking_tokens", [0, 64])
def test_a_prompt_is_what_the_chat_template_gives_byte_for_byte(thinking_tokens: int) -> None:
    tokens = chat_tokens(thinking_tokens=thinking_tokens)
    for position in POSITIONS[:6]:
        for power in position.to_move:
            parts = LANGUAGE.sections(position, power, thinking=thinking_tokens > 0)
            options = {"add_generation_prompt": True, "enable_thinking": thinking_tokens > 0}
            conversation = messages_of(parts)
            assert tokens.prompts.text(position, power) == TOKENIZER.apply_chat_template(
                conversation, tokenize=False, **options
            )
            ids = TOKENIZER.apply_chat_template(conversation, tokenize=True, return_dict=False, **options)
            assert list(tokens.prompt(position, power)) == ids
            if not thinking_tokens:
                assert conversation == messages_of(LANGUAGE.sections(position, power))


def test_an_endpoint_gets_the_messages_that_the_policy_reads() -> None:
    tokens = chat_tokens()
    orders = "\n".join(slot.alternatives[0] for slot in sheet(POSITIONS[-1], "FRANCE"))

    async def play() -> list[Any]:
        async with serving(lambda _: answer(orders)) as endpoint:
            players = ChatPlayers({"chat": endpoint.settings()})
            for position in POSITIONS:
                if "FRANCE" in position.to_move:
                    await players.policy("chat").act(position, "FRANCE", 1)
            await players.close()
            return [request["messages"] for request in endpoint.requests if len(request["messages"]) == 2]

    sent = asyncio.run(play())
    read = [tokens.prompts.text(position, "FRANCE") for position in POSITIONS if "FRANCE" in position.to_move]
    options = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    assert [TOKENIZER.apply_chat_template(conversation, **options) for conversation in sent] == read


def test_tokens_by_section_add_up_to_the_prompt() -> None:
    tokens = chat_tokens()
    names = set()
    for position in POSITIONS:
        for power in position.to_move[:2]:
            counted = tokens.prompts.section_tokens(position, power)
            assert sum(counted.values()) == len(tokens.prompt(position, power))
            assert all(counted.values())
            names |= counted.keys()
    assert names == {*SECTIONS, "template"}


def test_what_is_cut_first_can_be_worked_out_from_the_rest() -> None:
    position = next(p for p in POSITIONS if p.phase == "F1903M")
    power = max(position.to_move, key=lambda name: len(position.units[name]))
    lengths = []
    for cut in range(len(LANGUAGE.cuts) + 1):
        parts = LANGUAGE.sections(position, power, cut=cut)
        text = TOKENIZER.apply_chat_template(
            messages_of(parts), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        lengths.append(len(TOKENIZER.encode(text, add_special_tokens=False)))
        tokens = chat_tokens(512 + lengths[-1])
        assert tokens.prompts.text(position, power) == text
        names = {part.name for part in parts}
        assert ("moves of other powers" in names) == (cut < 1)
        assert ("last orders" in names) == (cut < 2)
        # A mover reads all of its own moves, until only the mask offers them.
        for slot in sheet(position, power) if cut < len(LANGUAGE.cuts) else ():
            moves = [order for order in slot.alternatives if order.split(" ")[2] in ("H", "-")]
            assert moves
            assert all(order in text for order in moves)
    assert all(longer > shorter for longer, shorter in itertools.pairwise(lengths))
    with pytest.raises(EngineError, match=rf"has {lengths[-1]} tokens, and there is room for {lengths[-1] - 1}.*raise"):
        chat_tokens(512 + lengths[-1] - 1).prompt(position, power)


def test_others_moves_are_those_of_the_legal_orders() -> None:
    checked = 0
    for position in POSITIONS:
        for power in position.to_move if position.kind == "M" else ():
            text = next(
                (part.text for part in LANGUAGE.sections(position, power) if part.name == "moves of other powers"),
                "",
            )
            listed = {
                (place, unit.rpartition(" (")[0])
                for line in text.splitlines()[1:]
                for place, _, units in [line.partition(": ")]
                for unit in units.split(", ")
            }
            moves = {
                (unit, order.split(" - ")[1][:3])
                for owner in POWERS
                for unit in position.units[owner]
                for order in position.legal[unit[2:]]
                if order.startswith(f"{unit} - ") and not order.endswith("VIA")
            }
            mine = set(position.units[power])
            places = {unit[2:5] for unit in mine} | set(position.centers[power])
            places |= {place for unit, place in moves if unit in mine}
            assert listed == {(place, unit) for unit, place in moves if unit not in mine and place in places}
            checked += len(listed)
    assert checked > 100


def test_last_orders_hold_all_phases_since_the_latest_movement() -> None:
    seen = set()
    for position in POSITIONS:
        assert [phase.phase for phase in position.past] == [
            other.phase for other in POSITIONS[: POSITIONS.index(position)]
        ][-len(position.past) :]
        assert not position.past or position.past[0].phase.endswith("M")
        assert all(not phase.phase.endswith("M") for phase in position.past[1:])
        seen.add(len(position.past))
        if position.past and position.to_move:
            text = next(
                part.text for part in LANGUAGE.sections(position, position.to_move[0]) if part.name == "last orders"
            )
            orders = [order for phase in position.past for own in phase.orders.values() for order in own]
            assert all(order in text for order in orders)
            assert ("(bounce)" in text) == any("bounce" in words for p in position.past for words in p.results.values())
    assert {0, 1, 2} <= seen


def test_a_saved_game_gives_the_prompts_that_were_read_while_it_was_played(tmp_path: Path) -> None:
    tokens = chat_tokens(thinking_tokens=16)
    game = DiplomacyGame(1903)
    player = RecordingPlayer(make_bot("greedy"), tokens)
    record = asyncio.run(play_game(game, dict.fromkeys(POWERS, player), 5, learners=POWERS))
    game.save(tmp_path / "game.json")
    live = {
        (turn.phase, tuple(turn.prompt_ids.tolist()), tuple(turn.completion_ids.tolist()))
        for seat in record.learners.values()
        for turn in seat.turns
    }
    saved = list(saved_demonstrations(Diplomacy(GameSettings()), DiplomacyImitation(), tmp_path / "game.json", tokens))
    assert {
        (turn.phase, tuple(turn.prompt_ids.tolist()), tuple(turn.completion_ids.tolist())) for turn in saved
    } == live
    assert tokens.thought is not None
    empty = list(tokens.thought.empty)
    assert all(turn.completion_ids[: len(empty)].tolist() == empty for turn in saved)
    assert not any(turn.trained_mask[: len(empty)].any() for turn in saved)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["inference.thinking_tokens=64"], "inference.thinking_tokens needs policy.prompt = chat"),
        (["policy.prompt=chat"], r"leave room for a prompt of at least 700 tokens in policy.context_length \(512\)"),
        (["policy.prompt=chat", "policy.context_length=1024", "inference.thinking_tokens=400"], "thinking_tokens and"),
    ],
)
def test_settings_without_room_are_refused_by_name(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("laptop", overrides)
    load_config("laptop", ["policy.prompt=chat", "policy.context_length=2048", "inference.thinking_tokens=64"])
