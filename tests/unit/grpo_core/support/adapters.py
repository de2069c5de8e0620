"""What the tests of adapters share: adapters that change the output, and one forward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PROMPT = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def moved(model: nn.Module, seed: int = 2) -> nn.Module:
    """The model with random values in the factors that begin at zero, so that its adapters change its output."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_(std=0.3, generator=generator)
    return model


def logits(model: nn.Module) -> Tensor:
    """The logits of one prompt, shape (1, 8, V)."""
    with torch.inference_mode():
        return model(input_ids=PROMPT).logits
