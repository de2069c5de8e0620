"""Random models for the benchmarks: the small policy, and Qwen2.5's shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Qwen2Shape:
    """The shape of a Qwen2.5 model."""

    name: str
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int
    tied: bool  # output and input embeddings are one matrix

    @property
    def block_parameters(self) -> int:
        """Weights of one block's matrices; norms and biases are few."""
        head_size = self.hidden_size // self.heads
        projections = self.hidden_size * head_size * (2 * self.heads + 2 * self.key_value_heads)
        return projections + 3 * self.hidden_size * self.intermediate_size

    @property
    def parameters(self) -> int:
        """Weights of the embeddings and the blocks."""
        embeddings = self.vocabulary * self.hidden_size * (1 if self.tied else 2)
        return embeddings + self.layers * self.block_parameters

    def random_model(
        self, device: torch.device | str = "cpu", *, context: int = 4096, **options: Any
    ) -> PreTrainedModel:
        """Make a model with random bfloat16 weights, always the same; ``options`` are further keys of its config."""
        config = Qwen2Config(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_value_heads,
            max_position_embeddings=context,
            tie_word_embeddings=self.tied,
            **options,
        )
        torch.manual_seed(5)
        with torch.device(device):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16, attn_implementation="sdpa"
            )
        return model.eval()


def small_model(vocabulary: int) -> PreTrainedModel:
    """The 4 x 128 policy over a vocabulary of that size, always the same."""
    return make_small_model(PolicySettings(), vocabulary, eos_id=1, bos_id=2, pad_id=0, seed=5)
