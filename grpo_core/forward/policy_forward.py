"""The policy's forward pass as one module, with its kernels, precision and activation checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.hidden_states import runs_in_parts
from grpo_core.forward.logprobs import check_head, token_logprobs


class PolicyForward(nn.Module):
    """Computes log-probabilities and entropies of micro-batches under ``model``.

    It is a module because FSDP gathers sharded weights around a module's call.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        bf16: bool = False,
        gradient_checkpointing: bool = False,
        activation_offloading: bool = False,
        device: torch.device | None = None,
    ) -> None:
        """Take a Hugging Face causal LM, with or without adapters, and put it into evaluation mode.

        An fp32 model for the CPU gets faster linear layers; parameters keep their names and values.

        Args:
            model: changed in place as described.
            bf16: multiply matrices in bfloat16 (autocast); weights, log-softmax and gradients stay fp32.
            gradient_checkpointing: keep only the blocks' inputs and compute each block again in the backward pass
                (arXiv 1604.06174); it gives the same gradients in about a third more time.
            activation_offloading: keep these inputs in the host's memory; of use with ``gradient_checkpointing`` on a
                GPU alone, and the gradients are the same.
            device: where the model will compute; None: where it is.

        Raises:
            ValueError: the model's logits are not plain output embeddings.
        """
        super().__init__()
        check_head(model)
        if not bf16 and (device is None or device.type == "cpu"):  # autocast has no effect on the fast layers
            use_fast_layers(model)
        if gradient_checkpointing:
            _recompute_blocks(model, offloads=activation_offloading)
        self.model = model.eval()
        self._bf16 = bf16
        self._gradient_checkpointing = gradient_checkpointing

    def forward(self, micro: MicroBatch | Tensor, entropy_grad: bool = False) -> Any:
        """Return ``token_logprobs`` of a micro-batch; of ids (1, S) the logits (V,) that the model gives after them.

        Both are this method because FSDP gathers the weights around it.
        """
        if isinstance(micro, Tensor):
            return self.model(input_ids=micro, logits_to_keep=1).logits[0, -1].clone()  # FSDP warns of views
        with self.precision(micro.input_ids.device):
            return token_logprobs(self.model, micro, entropy_grad=entropy_grad)

    def precision(self, device: torch.device) -> torch.autocast:
        """Return the autocast context in which this model computes."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self._bf16)

    @property
    def shares_prompts(self) -> bool:
        """Whether micro-batches with shared prompts can be computed: blocks are not called as modules then."""
        model: Any = self.model
        return runs_in_parts(model.get_decoder().config) and not self._gradient_checkpointing

    def called_blocks(self) -> list[nn.Module]:
        """Return the transformer blocks that are called as modules, in order: without the last if it runs in parts."""
        blocks = _transformer_blocks(self.model)
        model: Any = self.model
        return blocks[:-1] if runs_in_parts(model.get_decoder().config) else blocks


def _transformer_blocks(model: nn.Module) -> list[nn.Module]:
    inner: Any = model
    return [module for module in inner.get_decoder().modules() if isinstance(module, GradientCheckpointingLayer)]


def _recompute_blocks(model: nn.Module, *, offloads: bool) -> None:
    """Let every block keep only its input; transformers' own switch needs training mode, which turns dropout on."""
    for block in _transformer_blocks(model):
        inner: Any = block
        # Without dropout there is no random state to restore.
        recomputed = partial(checkpoint, inner.forward, use_reentrant=False, preserve_rng_state=False)
        inner.forward = partial(_with_input_on_host, recomputed) if offloads else recomputed


def _with_input_on_host(recomputed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    # The hooks in force when a block is called take the input that checkpoint keeps; its own hooks take all else.
    with save_on_cpu(pin_memory=True):
        return recomputed(*args, **kwargs)
