"""Policies of the inference benchmarks on disk, and the real decisions that they write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.bench.models import Qwen2Shape
from grpo_core.models.pretrained import make_small_model, save_model, weights_payload
from grpo_core.models.weight_probe import Probe, make_probe
from grpo_core.settings import PolicySettings
from opponents.bots.registry import make_bot
from opponents.players.llm_policy import OrderTokens
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.notation import WORD_PATTERN, render, words
from services.environments.diplomacy.orders import sheet
from services.environments.diplomacy.position import POWERS
from services.inference.engine import GenerationRequest
from services.inference.word_tokenizer import make_word_tokenizer

WEIGHTS_FILE = "model.safetensors"
PROBES = 3  # prompts
UNTIL_YEAR = 1905
MAX_COMPLETION_LENGTH = 224


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
    tokens = OrderTokens(word_tokenizer())
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
                        prompt_ids=tokens.prompt(render(position, seat)),
                        constraint=tokens.constraint(sheet(position, seat)),
                        seed=len(requests),
                        max_completion_length=MAX_COMPLETION_LENGTH,
                    )
                )
            for power in position.to_move:
                bot = strong if power == seat else weak
                game.set_orders(power, bot.orders(position, power, seed))
            game.process()
        seed += 1
    return requests[:count]


def save_small_policy(folder: Path) -> SavedPolicy:
    """Save the untrained small policy of the default settings."""
    tokenizer = word_tokenizer()
    bos, eos, pad = tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id
    model = make_small_model(PolicySettings(), len(tokenizer), eos_id=eos, bos_id=bos, pad_id=pad, seed=0)
    return _save(model, folder)


def save_shape(shape: Qwen2Shape, folder: Path) -> SavedPolicy:
    """Save a random policy of a larger shape, which uses only the small tokenizer's ids."""
    words = word_tokenizer()
    ids = {name: getattr(words, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return _save(shape.random_model(context=512, **ids), folder)


def _save(model: PreTrainedModel, folder: Path) -> SavedPolicy:
    """Write a model, then change its weights and write those."""
    start, other = folder / "start", folder / "other.safetensors"
    save_model(model, word_tokenizer(), start)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.25)
    other.write_bytes(weights_payload(model))
    return SavedPolicy(start, other, make_probe(model, [request.prompt_ids for request in real_requests(PROBES)]))
