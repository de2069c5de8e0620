"""The engine in whole games: several games at once, order sheets of real positions."""

from __future__ import annotations

import asyncio
import copy

import numpy as np
import pytest
import torch

from cluster.bench.inference import torch_engine as engine_bench
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.play import GameRecord, play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.text.notes import note_words
from services.environments.diplomacy.world import Diplomacy
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("architecture", "notes"), [("qwen3", False), ("llama", False), ("qwen3", True)])
def test_whole_games_are_legal_and_every_logprob_equals_a_plain_forward_pass(architecture: str, notes: bool) -> None:
    tokenizer = make_word_tokenizer((*words(), *note_words()), WORD_PATTERN)
    settings = PolicySettings(architecture=architecture, layers=2, notes=notes)
    model = make_small_model(
        settings,
        len(tokenizer),
        eos_id=tokenizer.eos_token_id,
        bos_id=tokenizer.bos_token_id,
        pad_id=tokenizer.pad_token_id,
        seed=0,
    )
    with torch.no_grad():
        model.lm_head.weight.mul_(50)
    reference = copy.deepcopy(model)
    policy = LLMPolicy(
        TorchEngine(model, max_concurrent_decisions=16),
        TokenizedLanguage(Diplomacy.language, tokenizer, settings),
        max_completion_length=448,
    )

    async def play() -> list[GameRecord]:
        return await asyncio.gather(
            *(play_game(DiplomacyGame(1904), dict.fromkeys(POWERS, policy), seed, learners=POWERS) for seed in range(4))
        )

    records = asyncio.run(play())
    assert [record.defects for record in records] == [0] * 4
    turns = [turn for record in records for seat in record.learners.values() for turn in seat.turns]
    assert len(turns) > 150
    for turn in turns:
        with torch.inference_mode():
            ids = torch.from_numpy(np.concatenate([turn.prompt_ids, turn.completion_ids]).astype(np.int64))
            logits = reference(ids[None]).logits[0].double()
        for number, place in enumerate(np.flatnonzero(turn.trained_mask)):
            admissible = turn.admissible_ids[turn.admissible_offsets[number] : turn.admissible_offsets[number + 1]]
            at = logits[len(turn.prompt_ids) + place - 1][torch.from_numpy(admissible.astype(np.int64))]
            chosen = int(np.flatnonzero(admissible == turn.completion_ids[place])[0])
            assert turn.logprobs[place] == pytest.approx(float(torch.log_softmax(at, -1)[chosen]), abs=1e-4)


def test_the_bench_measures_the_engine_and_its_baseline() -> None:
    figures = engine_bench.run(rounds=1)
    assert [figure.name for figure in figures] == ["decisions", "completion tokens", "completion tokens"]
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)
