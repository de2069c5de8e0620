"""Random models for the benchmarks: the small policy, and Qwen2.5's shapes."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings


def small_model(vocabulary: int) -> PreTrainedModel:
    """The 4 x 128 policy over a vocabulary of that size, always the same."""
    return make_small_model(PolicySettings(), vocabulary, eos_id=1, bos_id=2, pad_id=0, seed=5)


def qwen2_config(
    hidden: int, feed_forward: int, layers: int, heads: int, key_value_heads: int, vocabulary: int, *, tied: bool
) -> Qwen2Config:
    """The shape of a Qwen2.5 model; ``tied``: output and input embeddings are one matrix."""
    return Qwen2Config(
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=tied,
    )


def random_model(config: Qwen2Config, device: torch.device | str = "cpu") -> PreTrainedModel:
    """Make a model with random bfloat16 weights, always the same."""
    torch.manual_seed(5)
    with torch.device(device):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return model.eval()
