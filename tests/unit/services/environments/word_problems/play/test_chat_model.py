"""A chat model answers word problems through its template: follow-ups, and thoughts of its own or in the answer."""

from __future__ import annotations

import asyncio

import pytest
import torch

from grpo_core.settings import PolicySettings
from opponents.play import GameRecord, play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.word_problems.play.game import ProblemGame
from services.inference.torch_backend.engine import TorchEngine
from services.settings import InferenceSettings
from tests.chat_models import chat_model, chat_tokenizer
from tests.unit.services.environments.word_problems.play.worlds import word_problems

ROLE = "step_by_step"
POLICY = PolicySettings(prompt="chat", context_length=2048)


def played(thinking_tokens: int) -> tuple[ProblemGame, GameRecord]:
    torch.set_num_threads(1)
    world, tokenizer = word_problems(follow_ups=1, variants=(ROLE,)), chat_tokenizer()
    settings = InferenceSettings(max_completion_length=24, thinking_tokens=thinking_tokens)
    tokens = TokenizedLanguage(world.language, tokenizer, POLICY, settings)
    policy = LLMPolicy(TorchEngine(chat_model()), tokens, max_completion_length=24)
    game = world.new_game(world.starts().draw(ROLE, 3), ROLE, 3)
    record = asyncio.run(play_game(game, {ROLE: policy}, 3, learners=(ROLE,)))
    return game, record


@pytest.mark.parametrize("thinking_tokens", [0, 8])
def test_both_questions_are_answered_and_recorded(thinking_tokens: int) -> None:
    game, record = played(thinking_tokens)
    assert game.is_done
    turns = record.learners[ROLE].turns
    assert len(game.replies) == len(turns) == 2
    assert [reply.startswith("<think>\n") for reply in game.replies] == [thinking_tokens > 0] * 2
    assert not any(word in reply for word in ("Thoughts:", "Answer:") for reply in game.replies)
    prompts = [chat_tokenizer().decode(turn.prompt_ids) for turn in turns]
    assert game.problems[0].question.text in prompts[0]
    assert game.problems[1].question.text in prompts[1]
    assert game.problems[0].question.text in prompts[1]
    assert ("Write your reasoning between <think>" in prompts[0]) == (thinking_tokens == 0)
