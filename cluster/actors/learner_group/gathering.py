"""How whole weights are gathered, tensor by tensor: what rank 0 does, and what the peers do at the same time.

Both sides of a pair go through the same tensors in the same order.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from grpo_core.learner import Learner
from grpo_core.models.lora import adapter_payload, has_adapters, save_adapters
from grpo_core.models.pretrained import ADAPTER, plain_items, policy_payload
from grpo_core.models.role_adapters import adapter_roles, role_adapter_payloads, save_role_adapters
from grpo_core.models.tensor_stream import gathered_payload, save_gathered

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def gather_policy(model: nn.Module) -> bytes | memoryview:
    """Return on rank 0 what ``policy_payload`` returns of a model that is whole."""
    return policy_payload(model) if has_adapters(model) else gathered_payload(model)


def help_gather_policy(model: nn.Module) -> None:
    """A peer's part of ``gather_policy``, or of ``role_adapter_payloads``."""
    if adapter_roles(model):
        role_adapter_payloads(model)
    elif has_adapters(model):
        adapter_payload(model)
    else:
        _run_through(model)


def save_whole_model(model: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write on rank 0 what ``save_model`` writes of a model that is whole."""
    save_gathered(model, folder)
    if adapter_roles(model):
        save_role_adapters(model, folder / ADAPTER)
    elif has_adapters(model):
        save_adapters(model, folder / ADAPTER)
    tokenizer.save_pretrained(folder)


def help_save_checkpoint(learner: Learner) -> None:
    """A peer's part of ``save_checkpoint`` with ``save_whole_model``: first the weights, then the state."""
    _run_through(learner.model)
    if has_adapters(learner.model):
        help_gather_policy(learner.model)
    learner.save_state(None)


def _run_through(model: nn.Module) -> None:
    """Gather every tensor and keep none."""
    deque(plain_items(model), maxlen=0)
