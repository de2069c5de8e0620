"""Small models over the real vocabulary of orders, for tests that compare vLLM with the torch engine."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grpo_core.models.pretrained import make_small_model, save_model
from grpo_core.settings import PolicySettings
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.inference.engine import Engine, Generation, GenerationRequest
from services.inference.vllm_backend.engine import VLLMEngine
from services.inference.vllm_backend.startup import CoreOptions, start_core
from services.inference.word_tokenizer import make_word_tokenizer
from services.settings import InferenceSettings


def word_tokenizer() -> PreTrainedTokenizerBase:
    return make_word_tokenizer(words(), WORD_PATTERN)


def peaked_model(architecture: str = "qwen3", *, tied: bool = False, seed: int = 0) -> PreTrainedModel:
    """A model with peaked distributions: untrained ones are so uniform that wrong weights go unnoticed."""
    tokenizer = word_tokenizer()
    settings = PolicySettings(architecture=architecture, hidden_size=64, layers=2, intermediate_size=96)
    model = make_small_model(
        settings,
        len(tokenizer),
        eos_id=int(tokenizer.eos_token_id),
        bos_id=int(tokenizer.bos_token_id),
        pad_id=int(tokenizer.pad_token_id),
        seed=seed,
    )
    if tied:
        config = copy.deepcopy(model.config)
        config.tie_word_embeddings = True
        model = type(model)(config).eval()
    return perturbed(model, seed)


def perturbed(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """The model with random changes to every weight."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.15)
    return model.eval()


@contextmanager
def vllm_engine(
    model: PreTrainedModel,
    folder: Path,
    settings: InferenceSettings | None = None,
    *,
    max_lora_rank: int = 0,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Iterator[tuple[VLLMEngine, asyncio.Runner]]:
    """A vLLM engine that runs the model, and its event loop."""
    save_model(model, tokenizer or word_tokenizer(), folder)
    settings = settings or InferenceSettings(kv_cache_mib=64)
    with asyncio.Runner() as runner:

        async def start() -> VLLMEngine:
            options = CoreOptions(on_gpu=False, max_lora_rank=max_lora_rank, adapters=8)
            core = start_core(folder, settings, options)
            return VLLMEngine(core, folder, keep_in_flight=settings.swap == "keep")

        engine = runner.run(start())
        try:
            yield engine, runner
        finally:
            runner.run(engine.close())


async def write_all(engine: Engine, requests: Sequence[GenerationRequest]) -> list[Generation]:
    """Generate all at once."""
    return list(await asyncio.gather(*(engine.generate(request) for request in requests)))
