"""The last layer's feed-forward block, computed only where its output is read: where a token is predicted.

Of a prompt that is one position in seventy; keys and values of the last layer do not depend on its feed-forward block.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


class Predicting:
    """The packed positions of the running pass that predict a token, (B,)."""

    def __init__(self) -> None:
        self.positions: Tensor | None = None


def narrow_last_layer(model: PreTrainedModel) -> Predicting:
    """Let the last layer's ``mlp`` skip every position but ``Predicting.positions``, where it gives zeros.

    A model built otherwise stays as it is; all positions are computed while ``positions`` is None.
    """
    predicting = Predicting()
    layers = getattr(model.get_decoder(), "layers", None)
    block = getattr(layers[-1], "mlp", None) if isinstance(layers, nn.ModuleList) else None
    if isinstance(block, nn.Module):
        whole: Callable[[Tensor], Tensor] = block.forward

        def narrow(hidden: Tensor) -> Tensor:
            positions = predicting.positions
            if positions is None:
                return whole(hidden)
            needed = whole(hidden.index_select(1, positions))
            return torch.zeros_like(hidden).index_copy_(1, positions, needed)

        block.forward = narrow
    return predicting
