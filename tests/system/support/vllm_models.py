"""Small models with opinions over the real vocabulary of orders, for tests of vLLM beside the torch engine."""

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
from services.environments.diplomacy.notation import WORD_PATTERN, words
from services.inference.engine import Engine, Generation, GenerationRequest
from services.inference.vllm_backend.engine import VLLMEngine
from services.inference.vllm_backend.startup import CoreOptions, start_core
from services.inference.word_tokenizer import make_word_tokenizer
from services.settings import InferenceSettings


def word_tokenizer() -> PreTrainedTokenizerBase:
    return make_word_tokenizer(words(), WORD_PATTERN)


def lively_model(architecture: str = "qwen3", *, tied: bool = False, seed: int = 0) -> PreTrainedModel:
    """Untrained models are so uniform that wrong weights would go unnoticed; this one is not."""
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
    return shaken(model, seed)


def shaken(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """The model, every weight moved at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.15)
    return model.eval()


@contextmanager
def vllm_engine(
    model: PreTrainedModel, folder: Path, settings: InferenceSettings | None = None, *, max_lora_rank: int = 0
) -> Iterator[tuple[VLLMEngine, asyncio.Runner]]:
    """A vLLM that runs the model, and the loop it lives in."""
    save_model(model, word_tokenizer(), folder)
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
    """All at once."""
    return list(await asyncio.gather(*(engine.generate(request) for request in requests)))
