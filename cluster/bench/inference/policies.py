"""Policies of the inference benchmarks on disk, and the real decisions that they write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen2Config

from cluster.actors.initial_policy import make_policy, probe_prompts
from cluster.bench.models import random_model
from grpo_core.models.pretrained import save_model, weights_payload
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import PolicySettings
from grpo_core.types import Probe
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WORD_PATTERN, sheet
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.world import Diplomacy
from services.inference.engine import GenerationRequest
from services.inference.word_tokenizer import make_word_tokenizer

UNTIL_YEAR = 1905
MAX_COMPLETION_LENGTH = 224
VLLM_CONTEXT = 512  # tokens that vLLM reserves room for


@dataclass(frozen=True, slots=True)
class SavedPolicy:
    """A model's folder, a file with other weights for it, and the learner's probe of those."""

    folder: Path
    other_weights: Path
    probe: Probe


def word_tokenizer() -> PreTrainedTokenizerBase:
    """The small policy's tokenizer, which all models here use."""
    return make_word_tokenizer(words(), WORD_PATTERN)


def real_requests(count: int) -> list[GenerationRequest]:
    """Decisions of one seat a game, countries in rotation: a DumbBot among random players, similar to training."""
    tokens = TokenizedLanguage(Diplomacy.language, word_tokenizer())
    strong, weak = make_bot("dumbbot"), make_bot("random")
    requests: list[GenerationRequest] = []
    seed = 0
    while len(requests) < count:
        game, seat = DiplomacyGame(UNTIL_YEAR), POWERS[seed % len(POWERS)]
        while not game.is_done:
            position = game.position
            if seat in position.to_move:
                requests.append(
                    GenerationRequest(
                        prompt_ids=tokens.prompt(position, seat),
                        constraint=tokens.constraint(sheet(position, seat)),
                        seed=len(requests),
                        max_completion_length=MAX_COMPLETION_LENGTH,
                    )
                )
            for power in position.to_move:
                bot = strong if power == seat else weak
                game.set_orders(power, bot.actions(position, power, seed))
            game.process()
        seed += 1
    return requests[:count]


def save_policy(config: Qwen2Config | None, folder: Path) -> SavedPolicy:
    """Save a random policy of a shape, or the untrained small one; then change its weights and save those.

    A larger policy uses only the small tokenizer's ids.
    """
    model: PreTrainedModel
    model, tokenizer = make_policy(PolicySettings(), 0, Diplomacy.language)
    if config is not None:
        ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
        config.update({"max_position_embeddings": VLLM_CONTEXT, **ids})
        model = random_model(config)
    start, other = folder / "start", folder / "other.safetensors"
    save_model(model, tokenizer, start)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.25)
    other.write_bytes(weights_payload(model))
    tokens = TokenizedLanguage(Diplomacy.language, tokenizer)
    return SavedPolicy(start, other, make_probe(model, probe_prompts(tokens, Diplomacy(GameSettings()), POWERS)))
