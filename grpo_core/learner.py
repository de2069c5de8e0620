"""One update: groups -> advantages -> weights -> micro-batches -> policy loss -> optimizer steps -> audit record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grpo_core.advantages.dynamic_sampling import drop_zero_variance
from grpo_core.advantages.group_relative import RunningBaseline, updated_baselines
from grpo_core.advantages.grouping import required_facts
from grpo_core.advantages.pipeline import NO_MEMORY, compute_advantages
from grpo_core.batching.microbatches import MicroBatch, TrainingTurn, micro_batches, training_turns
from grpo_core.batching.minibatches import Minibatch, Part, learning_turns, optimizer_steps
from grpo_core.errors import DivergenceError
from grpo_core.forward.policy_forward import PolicyForward
from grpo_core.gradients.gradient_surgery import SurgeryRecord, operate
from grpo_core.losses.diagnostics import token_diagnostics
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.losses.representation_alignment import alignment_of_turns
from grpo_core.models.fsdp import ALONE, Sharding, spread_like, whole
from grpo_core.models.lora import adapters_off, has_adapters
from grpo_core.models.role_adapters import clip_each, speaking_as, specialists_of, turns_by_role
from grpo_core.settings import AlignmentSettings, GroupingSettings, LearnerSettings
from grpo_core.training.accumulators import UpdateAccumulators
from grpo_core.training.audit import StepRecord, audit_record, update_metrics
from grpo_core.training.learner_state import LearnerState, packed, unpacked
from grpo_core.training.lr_schedule import learning_rate_at
from grpo_core.types import Batch, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class UpdateResult:
    """What one update did: flat numbers for the log and the record for the audit folder (JSON-able)."""

    metrics: dict[str, float]
    audit: dict[str, Any]


@dataclass(slots=True)
class _Pass:
    """What the steps of an update share, and sums over its micro-batches."""

    proximal: Mapping[int, Tensor]  # turn -> its trained tokens' log-probabilities under the update's first weights
    roles: Sequence[str]  # by episode
    compared: Sequence[str]  # by turn, its group of grouping.surgery_key; empty without gradient surgery
    steps: list[StepRecord] = field(default_factory=list)
    sums: UpdateAccumulators = field(default_factory=UpdateAccumulators)


class Learner:
    """Owns the optimizer of one policy; the model is trained in place.

    The model stays in evaluation mode (no dropout), as the engine that samples has none either.
    """

    def __init__(
        self,
        model: nn.Module,
        learner: LearnerSettings,
        grouping: GroupingSettings,
        seed: int,
        *,
        reference: nn.Module | None = None,
        alignment: AlignmentSettings | None = None,
        sharding: Sharding = ALONE,
    ) -> None:
        """Take a Hugging Face causal LM and make its optimizer; the key expressions are checked at once.

        Args:
            model: trained in place, its adapters alone where it has any; changed as ``PolicyForward`` says.
            learner: how to learn.
            grouping: who is judged against whom.
            seed: of the shuffles into minibatches.
            reference: what ``beta`` keeps the policy near, of the same vocabulary: a copy of the run's first weights,
                also after a resume. It is frozen, never saved, and ignored while ``beta`` is 0. A model with adapters
                needs none: it is its own reference while they are off.
            alignment: which roles' hidden states are drawn together; None: nobody's.
            sharding: the processes that train this model together, each with a learner of the same arguments.

        Raises:
            GroupingError: a key expression cannot be used.
            ValueError: the model's logits are not plain output embeddings; ``beta > 0`` without a reference of its
                own weights; ``loss_type = "rloo"`` without the leave-one-out baseline; or several processes with
                gradient surgery or alignment, which need whole gradients and hidden states; or specialists with any
                of these three.
        """
        required_facts(grouping)
        if learner.loss_type == "rloo" and grouping.baseline != "leave_one_out":
            raise ValueError("learner.loss_type rloo needs grouping.baseline = leave_one_out")
        if sharding.ranks > 1 and (grouping.gradient_surgery != "none" or (alignment and alignment.weight > 0)):
            raise ValueError("gradient surgery and alignment do not work across processes; turn them off, or use one")
        self._specialists = specialists_of(model)
        if self._specialists:
            _check_specialists(grouping, alignment, sharding)
        self._sharding = sharding
        self._forward = PolicyForward(model, bf16=learner.bf16, gradient_checkpointing=learner.gradient_checkpointing)
        sharding.shard(self._forward, self._forward.called_blocks)
        self._reference: PolicyForward | None = None
        if learner.beta > 0 and not has_adapters(model):
            self._reference = PolicyForward(_frozen(reference, model), bf16=learner.bf16)
            sharding.shard(self._reference, self._reference.called_blocks)
        self.model = model
        self.settings = learner
        self.grouping = grouping
        self.alignment = alignment or AlignmentSettings()
        self.version = 0
        self.baselines: dict[str, RunningBaseline] = {}
        self.memory = NO_MEMORY
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._named = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._device = next(iter(self._named.values())).device
        self._optimizer = torch.optim.AdamW(
            list(self._named.values()),
            lr=learner.learning_rate,
            betas=(0.9, learner.adam_beta2),
            weight_decay=learner.weight_decay,
            fused=True,
        )

    def move_to(self, device: torch.device) -> None:
        """Take model, reference and optimizer to another device; no process may share them.

        A model made on a GPU may wait on the CPU between steps, but one made on the CPU has layers for CPUs alone
        (see ``PolicyForward``).
        """
        self._optimizer.zero_grad(set_to_none=True)
        self.model.to(device)
        if self._reference is not None:
            self._reference.to(device)
        for moments in self._optimizer.state.values():
            moments.update({name: value.to(device) for name, value in moments.items() if isinstance(value, Tensor)})
        self._device = device

    def step(self, batch: Batch) -> UpdateResult:
        """Learn from one batch once; ``version`` rises by one.

        Turns whose advantage is exactly 0 get no forward pass when there is neither an entropy bonus nor a KL penalty:
        their gradient is 0. They still count in the normaliser, so an update of which little is left has a smaller
        gradient; with ``top_up_episodes`` the batch holds further episodes instead, and turns of zero-variance
        groups leave loss and normaliser (see ``advantages.dynamic_sampling``). A minibatch without a gradient takes no
        optimizer step.

        Specialists each learn from their role's turns: these are drawn into minibatches, normalised and clipped by
        themselves, so that an adapter is trained as one alone would be. One without signal in a minibatch stays as it
        is, its moments too.

        Raises:
            ValueError: the batch is empty, is meant for another version, holds a turn that contradicts itself, or one
                of a role without a specialist.
            GroupingError: a sample lacks a fact of a key expression.
            ResourceError: gradient surgery would keep more gradients side by side than there is memory for.
            DivergenceError: the loss or its gradient is not finite; weights, version and baselines are those before
                the failing optimizer step.
        """
        start = time.perf_counter()
        if not batch.episodes:
            raise ValueError("the batch has no episodes")
        if batch.learner_version != self.version:
            raise ValueError(f"the batch is for version {batch.learner_version}, the learner is at {self.version}")
        judgement = compute_advantages(batch.episodes, self.settings, self.grouping, self.baselines, self.memory)
        turns = training_turns(batch.episodes, self.version)
        if self.settings.top_up_episodes:
            turns = drop_zero_variance(turns, judgement)
        learning_rate = self._set_learning_rate()
        roles = [episode.role for episode in batch.episodes]
        parts = turns_by_role(self.model, turns, roles)
        totals = _Pass(self._proximal(parts, judgement.turn_advantages), roles, judgement.surgery_groups)
        for _ in range(self.settings.epochs):
            for shares in optimizer_steps(parts, judgement.turn_advantages, self.settings, self._generator):
                self._optimize(shares, totals)
        self.baselines = updated_baselines(
            self.baselines,
            [sample.role for sample in judgement.samples],
            judgement.returns,
            self.grouping.running_baseline_decay,
        )
        self.memory = judgement.memory
        self.version += 1
        sums = totals.sums
        sums.gather(self._sharding)
        metrics = update_metrics(batch, self.settings, self.grouping.keys, judgement, turns, totals.steps, sums.named)
        seconds = time.perf_counter() - start
        metrics |= {
            "learning_rate": learning_rate,
            "seconds": seconds,
            "tokens_per_second": sums.tokens / seconds,
            **sums.metrics,
        }
        record = audit_record(self.version, self.settings, self.grouping, judgement, totals.steps, metrics)
        return UpdateResult(metrics, record)

    def _optimize(self, shares: Sequence[Minibatch], totals: _Pass) -> None:
        """One optimizer step on one minibatch."""
        learning = [share for share in shares if share.learns]
        if not learning:
            totals.steps.append(StepRecord(loss=0.0, grad_norm=0.0, skipped=True))
            return
        self._optimizer.zero_grad(set_to_none=True)  # parameters without a gradient take no step
        found = [self._gradient(share, totals) for share in learning]
        loss = sum(value for value, _ in found) / len(found)
        _, surgery = found[0]
        aligned = self._align(learning[0].turns, totals)
        norm = clip_each(self._named, self._specialists, self.settings.max_grad_norm)
        if not math.isfinite(norm):
            raise self._diverged("the gradient's norm", norm, totals)
        self._optimizer.step()
        totals.steps.append(
            StepRecord(loss + (aligned or 0.0), norm, skipped=False, surgery=surgery, alignment=aligned)
        )

    def _gradient(self, share: Minibatch, totals: _Pass) -> tuple[float, SurgeryRecord | None]:
        """Add to ``.grad`` from the turns that learn; the policy loss, and what surgery found where it is on."""

        def backward(chosen: Sequence[int]) -> float:
            picked = list(chosen)
            micros = micro_batches(
                [share.turns[index] for index in picked],
                share.advantages[picked],
                share.weights[picked],
                self.settings.tokens_per_microbatch,
                self._device,
                fresh=all(step.skipped for step in totals.steps),
            )
            # Around the backward pass as well, which may compute blocks again.
            with speaking_as(self.model, share.role):
                values = [self._backward(micro, totals, own) for micro, own in self._sharding.share(micros)]
            loss = float(self._sharding.total(np.array(sum(values))))
            # Only here, where every rank knows of it.
            if not math.isfinite(loss):
                raise self._diverged("the loss", loss, totals)
            return loss

        if not totals.compared:
            return backward(share.learns), None
        groups: dict[str, list[int]] = {}
        for index in share.learns:
            groups.setdefault(totals.compared[share.turns[index].turn], []).append(index)
        return operate(self._named, dict(sorted(groups.items())), backward, self.grouping, self._generator)

    def _align(self, turns: Sequence[TrainingTurn], totals: _Pass) -> float | None:
        """Add the alignment loss's gradient; its value, or None while it is off."""
        if self.alignment.weight == 0:
            return None
        roles = [totals.roles[turn.episode] for turn in turns]
        with self._forward.precision(self._device):
            found = alignment_of_turns(self.model, turns, roles, self.alignment, self._generator)
        value = float(found.loss.detach())
        if not math.isfinite(value):
            raise self._diverged("the alignment loss", value, totals)
        if found.pairs:
            found.loss.backward()  # type: ignore[no-untyped-call]
        return value

    @torch.no_grad()
    def _proximal(self, parts: Sequence[Part], turn_advantages: FloatArray) -> dict[int, Tensor]:
        """Log-probabilities under the present weights; empty where the loss needs none.

        A single optimizer step needs none either: its own log-probabilities are the proximal ones.
        """
        settings = self.settings
        if not settings.decoupled or settings.minibatches * settings.epochs == 1:
            return {}
        out: dict[int, Tensor] = {}
        lengths: dict[int, int] = {}
        for role, turns in parts:
            advantages = turn_advantages[[turn.turn for turn in turns]]
            learning = [turns[index] for index in learning_turns(advantages, settings)]
            none, weights = np.zeros(len(learning), np.float32), np.zeros(len(learning))  # read by no one
            micros = micro_batches(learning, none, weights, settings.tokens_per_microbatch, self._device)
            with speaking_as(self.model, role):
                for micro, own in self._sharding.share(micros):
                    chosen_N, _ = self._forward(micro)
                    if own:
                        sizes: list[int] = torch.bincount(micro.row_N).tolist()
                        out |= dict(zip(micro.turns, torch.split(chosen_N, sizes), strict=True))
            lengths |= {turn.turn: len(turn.position_S) for turn in learning}
        return self._sharding.joined(out, lengths)

    @torch.no_grad()
    def _reference_logprobs(self, micro: MicroBatch) -> Tensor | None:
        """Under the run's first weights; None where nothing is kept near them."""
        if self.settings.beta == 0:
            return None
        if self._reference is not None:
            reference_N, _ = self._reference(micro)
        else:
            with adapters_off(self.model):
                reference_N, _ = self._forward(micro)
        out: Tensor = reference_N
        return out

    def _loss_tokens(self, micro: MicroBatch, totals: _Pass) -> LossTokens:
        reference_N = self._reference_logprobs(micro)
        chosen_N, entropy_N = self._forward(micro, entropy_grad=self.settings.entropy_coef > 0)
        proximal_N = None
        if self.settings.decoupled:
            recorded = [totals.proximal[turn] for turn in micro.turns] if totals.proximal else None
            proximal_N = chosen_N.detach() if recorded is None else torch.cat(recorded)
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

    def _backward(self, micro: MicroBatch, totals: _Pass, own: bool) -> float:
        """Add a micro-batch's gradient, and its numbers where it is this rank's own; its share of the loss."""
        tokens = self._loss_tokens(micro, totals)
        losses = token_losses(tokens, self.settings)
        loss = (micro.weight_N * losses.loss_N).sum()
        # Sharded gradients are averaged over the ranks.
        (loss * self._sharding.ranks).backward()  # type: ignore[no-untyped-call]
        if not own:
            return 0.0
        totals.sums.add(micro, token_diagnostics(tokens, losses, self.settings).cpu().numpy())
        return float(loss.detach())

    def _diverged(self, what: str, value: float, totals: _Pass) -> DivergenceError:
        self._optimizer.zero_grad(set_to_none=True)
        return DivergenceError(
            f"{what} is {value} in update {self.version + 1}, optimizer step {len(totals.steps) + 1}; look at "
            "ratio_max and grad_norm of the updates before, then lower learner.learning_rate or max_grad_norm, or "
            "resume from an older checkpoint"
        )

    def _set_learning_rate(self) -> float:
        rate = learning_rate_at(self.version, self.settings)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        return rate

    def state(self) -> LearnerState:
        """A copy of everything an exact continuation needs besides the model's weights; every rank must ask for it."""
        state = packed(self.version, self._optimizer, self._named, self.baselines, self.memory, self._generator)
        return LearnerState({name: whole(tensor) for name, tensor in state.tensors.items()}, state.record)

    def load_state(self, state: LearnerState) -> None:
        """Continue exactly where ``state`` was taken; the model must already hold the weights of that moment.

        Raises:
            CheckpointError: the state is another model's, or lacks something.
        """
        restored = unpacked(state, self._named)
        self._optimizer.state.clear()
        for parameter, moments in restored.moments.items():
            self._optimizer.state[parameter] = {name: spread_like(value, parameter) for name, value in moments.items()}
        self.version, self.baselines, self.memory = restored.version, restored.baselines, restored.memory
        self._generator = restored.generator


def _check_specialists(grouping: GroupingSettings, alignment: AlignmentSettings | None, sharding: Sharding) -> None:
    if grouping.gradient_surgery != "none" or (alignment and alignment.weight > 0):
        raise ValueError("specialists share no trained weights, so that gradient surgery and alignment have nothing to "
                         "do; turn them off, or train one adapter for all roles")  # fmt: skip
    if sharding.ranks > 1:
        raise ValueError("specialists do not work across processes; use one, or train one adapter for all roles")


def _frozen(reference: nn.Module | None, model: nn.Module) -> nn.Module:
    if reference is None:
        raise ValueError("learner.beta > 0 needs a reference: a copy of the weights that the run started from")
    if {id(value) for value in reference.parameters()} & {id(value) for value in model.parameters()}:
        raise ValueError("the reference shares parameters with the policy and would move with it; copy the model")
    return reference.requires_grad_(False)
