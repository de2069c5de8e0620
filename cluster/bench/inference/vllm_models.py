"""Policies of the vLLM benchmark on disk: the small one, and random models of a large one's shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase, Qwen2Config

from cluster.bench.inference.torch_engine import real_requests, small_policy
from grpo_core.models.pretrained import save_model, weights_payload
from grpo_core.models.weight_probe import Probe, make_probe
from opponents.players.llm_policy import OrderTokens
from services.environments.diplomacy.notation import WORD_PATTERN, words
from services.inference.engine import GenerationRequest
from services.inference.word_tokenizer import make_word_tokenizer

WEIGHTS_FILE = "model.safetensors"
PROBES = 3  # prompts
_CONTEXT = 512


@dataclass(frozen=True, slots=True)
class Swappable:
    """A model's folder, other weights for it, and what a learner computes with those."""

    folder: Path
    moved: Path  # a folder with ``WEIGHTS_FILE`` alone
    probe: Probe


@dataclass(frozen=True, slots=True)
class LargeShape:
    """A Qwen2.5, tied embeddings, bfloat16. It reads and writes the small policy's words, the first of its ids."""

    name: str
    hidden_size: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate_size: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """Weights of the embedding and the blocks; norms and biases are few."""
        attention = 2 * self.hidden_size**2 * (1 + self.key_value_heads / self.heads)
        block = attention + 3 * self.hidden_size * self.intermediate_size
        return round(self.vocabulary * self.hidden_size + self.layers * block)

    @property
    def needed_bytes(self) -> int:
        """What the benchmark takes at most: ten times the weights (in vLLM, in the copy, on their way), and 3 GB."""
        return 10 * 2 * self.parameters + 3 * 10**9


def small_policy_folder(folder: Path) -> Swappable:
    """The small policy of the default settings."""
    return swappable(small_policy(word_tokenizer()), folder)


def large_policy(shape: LargeShape) -> PreTrainedModel:
    """A random model of that shape."""
    tokenizer = word_tokenizer()
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(5)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


def requests(count: int) -> list[GenerationRequest]:
    """Real decisions in the small policy's words."""
    return real_requests(OrderTokens(word_tokenizer()), count)


def swappable(model: PreTrainedModel, folder: Path) -> Swappable:
    """Write the model, then what it becomes when its weights move."""
    start, moved = folder / "start", folder / "moved"
    save_model(model, word_tokenizer(), start)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.25)
    moved.mkdir()
    (moved / WEIGHTS_FILE).write_bytes(weights_payload(model))
    return Swappable(start, moved, make_probe(model, [request.prompt_ids for request in requests(PROBES)]))


def word_tokenizer() -> PreTrainedTokenizerBase:
    """The small policy's, which all models here read and write."""
    return make_word_tokenizer(words(), WORD_PATTERN)
