"""The policy's forward pass as one module: its kernels, its precision and what it keeps for the backward pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.hidden_states import has_plain_blocks
from grpo_core.forward.logprobs import check_head, token_logprobs


class PolicyForward(nn.Module):
    """Log-probabilities and entropies of micro-batches under one model, which it owns as ``model``.

    A module of its own, because what shards weights gathers them around a module's call and lets go of them after it.
    """

    def __init__(self, model: nn.Module, *, bf16: bool = False, gradient_checkpointing: bool = False) -> None:
        """Take a Hugging Face causal LM, with or without adapters, in evaluation mode from now on.

        An fp32 model on the CPU gets faster linear layers of the same parameters and values.

        Args:
            model: its parameters and their names stay as they are.
            bf16: multiply matrices in bfloat16 (autocast); weights, log-softmax and gradients stay fp32.
            gradient_checkpointing: keep only the blocks' inputs and compute each block again in the backward pass
                (Chen et al., arXiv 1604.06174); the same gradients for about a third more time.

        Raises:
            ValueError: the model's logits are not plain output embeddings.
        """
        super().__init__()
        check_head(model)
        if not bf16:  # autocast does not reach into them
            use_fast_layers(model)
        if gradient_checkpointing:
            recompute_blocks(model)
        self.model = model.eval()
        self._bf16 = bf16

    def forward(self, micro: MicroBatch, entropy_grad: bool = False) -> tuple[Tensor, Tensor]:
        """``chosen_N`` and ``entropy_N`` of ``token_logprobs``, float32."""
        with self.precision(micro.input_ids.device):
            found = token_logprobs(self.model, micro, entropy_grad=entropy_grad)
        return found.chosen_N, found.entropy_N

    def precision(self, device: torch.device) -> torch.autocast:
        """The context in which this model computes."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self._bf16)

    def called_blocks(self) -> list[nn.Module]:
        """The transformer blocks that are called as modules, in order: not the last, where it runs in parts."""
        blocks = transformer_blocks(self.model)
        model: Any = self.model
        config = model.get_decoder().config
        return blocks[:-1] if has_plain_blocks(config) and config._attn_implementation == "sdpa" else blocks


def transformer_blocks(model: nn.Module) -> list[nn.Module]:
    """The decoder's blocks, in order."""
    inner: Any = model
    return [module for module in inner.get_decoder().modules() if isinstance(module, GradientCheckpointingLayer)]


def recompute_blocks(model: nn.Module) -> None:
    """Let every block keep only its input for the backward pass.

    transformers' own switch works in training mode alone, which would turn dropout on.
    """
    for block in transformer_blocks(model):
        inner: Any = block
        # No dropout, so there is no random state to bring back.
        inner.forward = partial(checkpoint, inner.forward, use_reentrant=False, preserve_rng_state=False)
