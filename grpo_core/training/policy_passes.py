"""Forward and backward passes of an update: the policy's, its reference's and the proximal policy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from grpo_core.batching.microbatches import MicroBatch, micro_batches
from grpo_core.batching.minibatches import Minibatch, RoleTurns, learning_turns
from grpo_core.forward.policy_forward import PolicyForward
from grpo_core.losses.diagnostics import token_diagnostics
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.models.fsdp import Sharding
from grpo_core.models.lora import adapters_off, has_adapters
from grpo_core.models.role_adapters import active_role
from grpo_core.settings import LearnerSettings
from grpo_core.traces.token_trace import TokenTrace
from grpo_core.training.accumulators import UpdateAccumulators
from grpo_core.types import FloatArray


class PolicyPasses:
    """The policy and, with a KL penalty, its reference, on one device; gradients are added to ``.grad``."""

    def __init__(
        self, model: nn.Module, settings: LearnerSettings, reference: nn.Module | None, sharding: Sharding
    ) -> None:
        """Take the model and shard its parameters.

        Raises:
            ValueError: the model's logits are not plain output embeddings, or ``beta > 0`` without a reference that has
                its own weights.
        """
        alone = sharding.ranks == 1
        target = next(model.parameters()).device if alone else sharding.device
        self.forward = PolicyForward(
            model,
            bf16=settings.bf16,
            gradient_checkpointing=settings.gradient_checkpointing,
            activation_offloading=settings.activation_offloading,
            device=target,
        )
        sharding.shard(self.forward, self.forward.called_blocks)
        self.reference: PolicyForward | None = None
        if settings.beta > 0 and not has_adapters(model):
            self.reference = PolicyForward(_frozen(reference, model), bf16=settings.bf16, device=target)
            sharding.shard(self.reference, self.reference.called_blocks)
        self.device = next(value for value in model.parameters() if value.requires_grad).device
        self._model = model
        self._settings = settings
        self._sharding = sharding

    def last_logits(self, ids: Tensor) -> Tensor:
        """Return the logits (V,) after ids (1, S), as the model's own call gives them; every rank must call this."""
        if self._sharding.ranks > 1:
            gathered: Tensor = self._sharding.called(self.forward, ids)
            return gathered
        logits: Tensor = self._model(input_ids=ids, logits_to_keep=1).logits[0, -1]
        return logits

    def move_to(self, device: torch.device) -> None:
        """Move model and reference to another device."""
        self._model.to(device)
        if self.reference is not None:
            self.reference.to(device)
        self.device = device

    def backward(
        self,
        minibatch: Minibatch,
        chosen: Sequence[int],
        proximal: Mapping[int, Tensor],
        sums: UpdateAccumulators,
        *,
        fresh: bool,
        trace: tuple[int, TokenTrace] | None = None,
    ) -> float:
        """Add the gradient of a minibatch's ``chosen`` turns (indices); returns their part of the minibatch's loss.

        ``proximal`` is the result of that method. Diagnostics of this process's micro-batches are added to ``sums``.
        ``fresh`` means that the update has not taken an optimizer step yet. ``trace`` is the step's number and what
        keeps its probabilities.
        """
        picked = list(chosen)
        micros = micro_batches(
            [minibatch.turns[index] for index in picked],
            minibatch.advantages[picked],
            minibatch.weights[picked],
            self._settings.tokens_per_microbatch,
            self.device,
            fresh=fresh,
            share_prompts=self._shares_prompts,
        )
        loss = 0.0
        # The backward pass needs the adapter as well, because it may compute blocks again.
        with active_role(self._model, minibatch.role):
            for micro, own in self._sharding.share(micros):
                tokens = self._loss_tokens(micro, proximal)
                losses = token_losses(tokens, self._settings)
                if own and trace is not None:
                    trace[1].add(trace[0], micro.turns, micro.weight_N, tokens)
                part = (micro.weight_N * losses.loss_N).sum()
                # Sharded gradients are averaged over the ranks.
                (part * self._sharding.ranks).backward()  # type: ignore[no-untyped-call]
                if own:
                    sums.add(micro, token_diagnostics(tokens, losses, self._settings).cpu().numpy())
                    loss += float(part.detach())
        return float(self._sharding.total(np.array(loss)))

    @torch.no_grad()
    def proximal(self, by_role: Sequence[RoleTurns], turn_advantages: FloatArray) -> dict[int, Tensor]:
        """Return log-probabilities of trained tokens by turn under the present weights; empty if the loss needs none.

        A single optimizer step uses its own.
        """
        settings = self._settings
        if not settings.decoupled or settings.minibatches * settings.epochs == 1:
            return {}
        out: dict[int, Tensor] = {}
        lengths: dict[int, int] = {}
        for role, turns in by_role:
            advantages = turn_advantages[[turn.turn for turn in turns]]
            learning = [turns[index] for index in learning_turns(advantages, settings)]
            unused, weights = np.zeros(len(learning), np.float32), np.zeros(len(learning))
            micros = micro_batches(
                learning,
                unused,
                weights,
                settings.tokens_per_microbatch,
                self.device,
                share_prompts=self._shares_prompts,
            )
            with active_role(self._model, role):
                for micro, own in self._sharding.share(micros):
                    chosen_N, _ = self.forward(micro)
                    if own:
                        sizes: list[int] = torch.bincount(micro.row_N).tolist()
                        out |= dict(zip(micro.turns, torch.split(chosen_N, sizes), strict=True))
            lengths |= {turn.turn: len(turn.position_S) for turn in learning}
        self._sharding.free(self.forward)
        return self._sharding.joined(out, lengths)

    @property
    def _shares_prompts(self) -> bool:
        """Whether equal prompts may be computed once.

        Sharded weights are gathered around the call of a block. On a GPU, attention with a mask and few key heads would
        take its slowest kernel.
        """
        passes = [self.forward, *([self.reference] if self.reference is not None else [])]
        is_possible = self._sharding.ranks == 1 and self.device.type == "cpu"
        return is_possible and all(each.shares_prompts for each in passes)

    def _loss_tokens(self, micro: MicroBatch, proximal: Mapping[int, Tensor]) -> LossTokens:
        reference_N = self._reference_logprobs(micro) if self._settings.beta > 0 else None
        chosen_N, entropy_N = self.forward(micro, entropy_grad=self._settings.entropy_coef > 0)
        proximal_N = None
        if self._settings.decoupled:
            proximal_N = torch.cat([proximal[turn] for turn in micro.turns]) if proximal else chosen_N.detach()
        return LossTokens(
            logprobs_N=chosen_N,
            entropy_N=entropy_N,
            behaviour_N=micro.behaviour_N,
            advantages_N=micro.advantage_N,
            row_N=micro.row_N,
            rows=len(micro.turns),
            proximal_N=proximal_N,
            reference_N=reference_N,
        )

    @torch.no_grad()
    def _reference_logprobs(self, micro: MicroBatch) -> Tensor:
        if self.reference is not None:
            # Freed at once: the policy's backward pass needs the memory.
            reference_N, _ = self._sharding.called(self.reference, micro)
        else:
            with adapters_off(self._model):
                reference_N, _ = self.forward(micro)
        out: Tensor = reference_N
        return out


def _frozen(reference: nn.Module | None, model: nn.Module) -> nn.Module:
    if reference is None:
        raise ValueError("learner.beta > 0 needs a reference: a copy of the weights that the run started from")
    if {id(value) for value in reference.parameters()} & {id(value) for value in model.parameters()}:
        raise ValueError("the reference shares parameters with the policy and would move with it; copy the model")
    return reference.requires_grad_(False)
