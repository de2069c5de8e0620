"""A language model as a player: only legal sheets under the mask, recorded defects without it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from tokenizers import Regex
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from grpo_core.errors import CheckpointError
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.play import play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WORD_PATTERN, sheet
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.text.notes import note_words, notes
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import TRUNCATED, Policy
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer
from services.settings import InferenceSettings
from tests.unit.opponents.played_games import played_positions

TOKENIZER = make_word_tokenizer(words(), WORD_PATTERN)
SETTINGS = PolicySettings(hidden_size=32, layers=1, intermediate_size=32)


@pytest.fixture
def engine() -> TorchEngine:
    torch.set_num_threads(1)
    model = make_small_model(
        SETTINGS,
        len(TOKENIZER),
        eos_id=TOKENIZER.eos_token_id,
        bos_id=TOKENIZER.bos_token_id,
        pad_id=TOKENIZER.pad_token_id,
        seed=0,
    )
    return TorchEngine(model)


def test_whole_games_under_the_mask_have_no_defective_order(engine: TorchEngine) -> None:
    policy = LLMPolicy(engine, TokenizedLanguage(Diplomacy.language, TOKENIZER))

    async def play_several() -> list[int]:
        seats: dict[str, Policy] = dict.fromkeys(POWERS, policy)
        records = await asyncio.gather(
            *(play_game(DiplomacyGame(1904), seats, seed, learners=POWERS) for seed in range(3))
        )
        for record in records:
            kinds = {turn.phase[-1] for seat in record.learners.values() for turn in seat.turns}
            assert "M" in kinds
            assert all(turn.trained_mask.any() for seat in record.learners.values() for turn in seat.turns)
        return [record.defects for record in records]

    assert asyncio.run(play_several()) == [0, 0, 0]


def test_the_orders_are_those_that_the_tokens_spell() -> None:
    tokens = TokenizedLanguage(Diplomacy.language, TOKENIZER)
    seen: set[str] = set()
    for position in played_positions("random", 1905, 3):
        for power in position.to_move:
            slots = sheet(position, power)
            chosen, claimed = [], set()
            for slot in slots:
                for order, claim in zip(slot.alternatives, slot.claims, strict=True):
                    if claim is None or claim not in claimed:
                        chosen.append(order)
                        claimed.add(claim)
                        break
            ids = [token for order in chosen for token in TOKENIZER.encode(order + "\n", add_special_tokens=False)]
            assert tokens.actions(slots, [*ids, tokens.end_id]) == tuple(chosen)
            assert tokens.text(ids).split() == " ".join(chosen).split()
            seen.add(position.kind)
    assert seen == {"M", "R", "A"}


def test_notes_are_forced_before_each_order_and_not_trained(engine: TorchEngine) -> None:
    tokenizer = make_word_tokenizer((*words(), *note_words()), WORD_PATTERN)
    model = make_small_model(SETTINGS, len(tokenizer), eos_id=2, bos_id=1, pad_id=0, seed=0)
    tokens = TokenizedLanguage(Diplomacy.language, tokenizer, PolicySettings(notes=True))
    policy = LLMPolicy(TorchEngine(model), tokens, max_completion_length=448)
    seen: set[str] = set()
    for position in played_positions("greedy", 1904, 3)[::2]:
        for power in position.to_move:
            decision = asyncio.run(policy.act(position, power, 1))
            assert decision.turn is not None
            written = decision.turn.completion_ids.tolist()
            spelled: list[int] = []
            trained = decision.turn.trained_mask
            for slot, order in zip(tokens.slots(position, power), decision.actions, strict=True):
                noted = tokenizer.encode(slot.note)
                assert not trained[len(spelled) : len(spelled) + len(noted)].any()
                spelled += [*noted, *tokenizer.encode(order + "\n")]
            assert written == [*spelled, tokens.end_id]
            assert [slot.note for slot in tokens.slots(position, power)] == list(notes(position, power))
            read = policy.read(position, power)
            assert read.text.split("\n")[1:] == [note for note in notes(position, power) if note]
            assert sum(read.sizes.values()) == len(tokenizer.encode(read.text.replace("\n", " ")))
            seen.add(position.kind)
    assert {"M", "A"} <= seen


def test_coordinated_sheets_send_no_two_units_into_one_province(engine: TorchEngine) -> None:
    settings = InferenceSettings(decoding="coordinated")
    tokens = TokenizedLanguage(Diplomacy.language, TOKENIZER, inference=settings)
    policies = [LLMPolicy(engine, each) for each in (tokens, TokenizedLanguage(Diplomacy.language, TOKENIZER))]
    collisions, kinds = [0, 0], set()
    for seed in (3, 4):
        for position in played_positions("random", 1906, seed):
            for power in position.to_move:
                for number, policy in enumerate(policies):
                    orders = [order.split(" ") for order in asyncio.run(policy.act(position, power, 1)).actions]
                    entered = [words[3][:3] for words in orders if len(words) > 3 and words[2] in ("-", "R")]
                    collisions[number] += len(entered) - len(set(entered))
                kinds.add(position.kind)
    assert kinds == {"M", "R", "A"}
    assert collisions[0] == 0
    assert collisions[1] > 0  # they are legal


def test_coordinated_sheets_exclude_nothing_else() -> None:
    tokens = TokenizedLanguage(Diplomacy.language, TOKENIZER, inference=InferenceSettings(decoding="coordinated"))
    for position in played_positions("random", 1904, 3):
        for power in position.to_move:
            legal, admitted = tokens.slots(position, power, legal=True), tokens.slots(position, power)
            assert [slot.alternatives for slot in admitted] == [slot.alternatives for slot in legal]
            for slot, other in zip(legal, admitted, strict=True):
                if position.kind == "A":
                    assert slot == other
                for order, claim in zip(other.alternatives, other.claims, strict=True):
                    if position.kind != "A" and order.split(" ")[2] not in ("-", "R"):
                        assert claim is None


def test_claims_of_one_sheet_mean_the_same_place_in_every_slot() -> None:
    tokens = TokenizedLanguage(Diplomacy.language, TOKENIZER)
    winters = [p for seed in range(4) for p in played_positions("random", 1906, seed) if p.kind == "A"]
    checked = 0
    for position in winters:
        for power in position.to_move:
            slots = sheet(position, power)
            places = {}
            for slot, constraint in zip(slots, tokens.constraint(slots).slots, strict=True):
                for claim, number in zip(slot.claims, constraint.claims, strict=True):
                    assert (claim is None) == (number is None)
                    if claim is not None:
                        assert places.setdefault(claim, number) == number
                        checked += 1
            assert len(set(places.values())) == len(places)
    assert checked > 20


def test_free_decoding_records_defects(engine: TorchEngine) -> None:
    policy = LLMPolicy(
        engine, TokenizedLanguage(Diplomacy.language, TOKENIZER), decoding="free", max_completion_length=12
    )
    position = played_positions("random", 1901, 0)[0]
    decision = asyncio.run(policy.act(position, "RUSSIA", 5))
    assert decision.turn is not None
    assert decision.turn.defects, "a random model does not write four legal orders in twelve words"
    assert decision.turn.admissible_offsets.size == 0
    assert decision.turn.trained_mask.all()
    assert TRUNCATED in decision.turn.defects or decision.turn.completion_ids[-1] == TOKENIZER.eos_token_id
    assert set(decision.actions) <= {order for slot in sheet(position, "RUSSIA") for order in slot.alternatives}


def test_the_tokenizer_covers_the_prompt_and_the_seed_decides_the_completion(engine: TorchEngine) -> None:
    position = played_positions("random", 1902, 1)[2]
    policy = LLMPolicy(engine, TokenizedLanguage(Diplomacy.language, TOKENIZER))
    ids = TokenizedLanguage(Diplomacy.language, TOKENIZER).prompt(position, position.to_move[0])
    assert TOKENIZER.unk_token_id not in ids

    async def write(seed: int) -> list[int]:
        turn = (await policy.act(position, position.to_move[0], seed)).turn
        assert turn is not None
        assert np.isfinite(turn.logprobs).all()
        return list(turn.completion_ids)

    async def write_all() -> list[list[int]]:
        return [await write(seed) for seed in (1, 1, 2, 3)]

    first, again, *others = asyncio.run(write_all())
    assert first == again
    assert any(other != first for other in others)


def test_a_tokenizer_that_cannot_write_orders_is_refused() -> None:
    endless = make_word_tokenizer(("A",), r"\w+")
    endless.eos_token = None
    mute = make_word_tokenizer(("A",), "A")
    mute.backend_tokenizer.pre_tokenizer = Split(Regex(r"[\s\S]+"), behavior="removed")
    without_unknown = make_word_tokenizer(("A",), r"\w+")
    without_unknown.backend_tokenizer.model = WordLevel({"A": 4})
    reasons = ("no end-of-sequence", "as nothing", "cannot write")
    for tokenizer, reason in zip((endless, mute, without_unknown), reasons, strict=True):
        with pytest.raises(CheckpointError, match=reason):
            TokenizedLanguage(Diplomacy.language, tokenizer)
