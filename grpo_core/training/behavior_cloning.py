"""Supervised learning of demonstrated decisions, under the masks with which they were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from grpo_core.batching.microbatches import TrainingTurn, micro_batches
from grpo_core.errors import DivergenceError
from grpo_core.forward.policy_forward import PolicyForward
from grpo_core.models.fsdp import ALONE, Sharding

BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.01
MAX_GRAD_NORM = 1.0
FINAL_SHARE = 0.05  # the last learning rate over the highest
MUON_FACTOR = 20.0  # step size of Muon over that of AdamW: its updates have a norm of their own


class BehaviorCloner:
    """Trains a causal LM in place to imitate demonstrated tokens.

    The loss is the mean negative log-likelihood of the chosen tokens over their admissible ids, in nats, without forced
    tokens; under the normaliser ``turn`` it is the mean of the turns' own means. The learning rate follows
    ``schedule``.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float,
        steps: int,
        tokens_per_microbatch: int = 4096,
        bf16: bool = False,
        optimizer: Literal["adamw", "muon"] = "adamw",
        normalizer: Literal["token", "turn"] = "token",
        ranks: Sharding = ALONE,
    ) -> None:
        """Take a model and make its optimizer: AdamW, or Muon for the matrices of the blocks and AdamW for the rest.

        ``learning_rate`` is the highest of AdamW, ``MUON_FACTOR`` times it that of Muon (Jordan et al. 2024), and
        ``steps`` is the number of calls of ``step``. ``ranks`` are processes that train copies of one model, each with
        its own turns; gradients are summed.
        """
        self._forward = PolicyForward(model, bf16=bf16)
        self._parameters = [value for value in model.parameters() if value.requires_grad]
        self._device = self._parameters[0].device
        matrices = _matrices_of_blocks(model) if optimizer == "muon" else []
        apart = set(map(id, matrices))
        rest = [value for value in self._parameters if id(value) not in apart]
        adamw = torch.optim.AdamW(rest, lr=learning_rate, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
        self._optimizers: list[tuple[float, torch.optim.Optimizer]] = [(learning_rate, adamw)]  # highest rates
        if matrices:
            highest = MUON_FACTOR * learning_rate
            self._optimizers.append((highest, torch.optim.Muon(matrices, lr=highest, weight_decay=WEIGHT_DECAY)))
        self._steps = max(1, steps)
        self._normalizer = normalizer
        self._done = 0
        self._budget = tokens_per_microbatch
        self._ranks = ranks

    def step(self, turns: Sequence[TrainingTurn]) -> float:
        """Take one optimizer step; returns the loss before it, in nats, over all ranks.

        Raises:
            DivergenceError: the loss or its gradient is not finite.
        """
        for highest, optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = highest * schedule(self._done, self._steps)
            optimizer.zero_grad(set_to_none=True)
        nothing, weights = np.zeros(len(turns), np.float32), self._weights(turns)
        total = 0.0
        for micro in micro_batches(turns, nothing, weights, self._budget, self._device):
            chosen_N, _ = self._forward(micro)
            loss = -(chosen_N * micro.weight_N).sum()
            loss.backward()
            total += float(loss.detach())
        self._ranks.sum_gradients(self._parameters)
        total = self._total(total)
        norm = float(nn.utils.clip_grad_norm_(self._parameters, MAX_GRAD_NORM))
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise DivergenceError(
                f"imitation diverged at step {self._done}: loss {total}, gradient norm {norm}; lower the learning rate"
            )
        for _, optimizer in self._optimizers:
            optimizer.step()
        self._done += 1
        return total

    @torch.no_grad()
    def held_out(self, turns: Sequence[TrainingTurn]) -> float:
        """Return the mean loss a token of held-out turns, in nats, over all ranks."""
        nothing, weights = np.zeros(len(turns), np.float32), np.ones(len(turns))
        nats, tokens = 0.0, 0
        for micro in micro_batches(turns, nothing, weights, self._budget, self._device):
            chosen_N, _ = self._forward(micro)
            nats -= float(chosen_N.sum())
            tokens += len(chosen_N)
        return self._total(nats) / self._total(tokens)

    def _weights(self, turns: Sequence[TrainingTurn]) -> NDArray[np.float64]:
        """What a token of each turn weighs in the loss."""
        tokens = np.array([len(turn.position_S) for turn in turns], np.float64)
        if self._normalizer == "turn":
            return 1 / (np.maximum(tokens, 1) * self._total(len(turns)))
        return np.full(len(turns), 1 / self._total(float(tokens.sum())))

    def _total(self, value: float) -> float:
        return float(self._ranks.total(np.array([value], np.float64))[0])


def _matrices_of_blocks(model: Any) -> list[nn.Parameter]:
    """The trained matrices that are neither input nor output embeddings."""
    embeddings = {id(layer.weight) for layer in (model.get_input_embeddings(), model.get_output_embeddings())}
    return [
        value for value in model.parameters() if value.requires_grad and value.ndim == 2 and id(value) not in embeddings
    ]


def schedule(step: int, steps: int) -> float:
    """Return the learning rate's factor at ``step`` (from 0): a linear rise for a twentieth, then a cosine."""
    warmup = max(1, steps // 20)
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return FINAL_SHARE + (1 - FINAL_SHARE) * (1 + math.cos(math.pi * progress)) / 2
