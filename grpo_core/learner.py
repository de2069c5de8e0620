"""One update: groups -> advantages -> weights -> micro-batches -> policy loss -> optimizer steps -> audit record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grpo_core.advantages.dynamic_sampling import drop_zero_variance
from grpo_core.advantages.group_baseline import RunningBaseline, updated_baselines
from grpo_core.advantages.grouping import required_facts
from grpo_core.advantages.pipeline import NO_MEMORY, AdvantageBatch, compute_advantages
from grpo_core.batching.microbatches import TrainingTurn, training_turns
from grpo_core.batching.minibatches import Minibatch, largest, optimizer_steps
from grpo_core.errors import DivergenceError
from grpo_core.gradients.gradient_surgery import SurgeryRecord, apply_surgery
from grpo_core.losses.representation_alignment import alignment_of_turns
from grpo_core.models.fsdp import ALONE, Sharding, spread_like, whole
from grpo_core.models.role_adapters import active_role, adapter_roles, clip_by_role, turns_by_role
from grpo_core.models.tensor_stream import save_in_turn
from grpo_core.models.weight_probe import make_probe
from grpo_core.settings import AlignmentSettings, GroupingSettings, LearnerSettings
from grpo_core.traces.token_trace import TokenTrace, turns_to_trace
from grpo_core.traces.update_trace import UpdateTrace, turn_tokens, update_trace
from grpo_core.training.accumulators import UpdateAccumulators
from grpo_core.training.audit import StepRecord, audit_record, update_metrics
from grpo_core.training.learner_state import LearnerState, packed, unpacked, with_shapes
from grpo_core.training.lr_schedule import learning_rate_at
from grpo_core.training.own_digests import own_digests
from grpo_core.training.policy_passes import PolicyPasses
from grpo_core.types import Batch, Probe


@dataclass(frozen=True, slots=True, eq=False)
class UpdateResult:
    """One update's flat numbers for the log, its JSON-able audit record, and the advantages that it learned from."""

    metrics: dict[str, float]
    audit: dict[str, Any]
    advantages: AdvantageBatch  # of all samples
    digests: Mapping[str, str]  # of what this process computed by itself (``own_digests``)
    trace: UpdateTrace | None = None  # if it was asked for


@dataclass(slots=True)
class _Update:
    """The shared inputs and the sums of one update's optimizer steps."""

    proximal: Mapping[int, Tensor]  # turn -> its trained tokens' log-probabilities under the update's first weights
    roles: Sequence[str]  # by episode
    surgery_groups: Sequence[str]  # by turn; empty without gradient surgery
    tokens: TokenTrace
    steps: list[StepRecord] = field(default_factory=list)
    steps_of_turn: dict[int, list[int]] = field(default_factory=dict)
    sums: UpdateAccumulators = field(default_factory=UpdateAccumulators)


class Learner:
    """Trains one policy in place; the model stays in evaluation mode (no dropout), like the engine that samples."""

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
        """Take a Hugging Face causal LM and make its optimizer.

        Args:
            model: changed in place as by ``PolicyForward``; if it has adapters, only these are trained.
            learner: settings of the update.
            grouping: settings of the groups, whose key expressions are checked.
            seed: of the shuffles into minibatches.
            reference: for ``beta > 0``, a copy of the run's first weights, also after a resume. It is frozen and never
                saved. A model with adapters needs none: without them it is its own reference.
            alignment: which roles' hidden states are aligned; None: none.
            sharding: the processes that train this model together, each with a learner of the same arguments.

        Raises:
            GroupingError: a key expression cannot be used.
            ValueError: the model's logits are not plain output embeddings; ``beta > 0`` without a reference that has
                its own weights; ``loss_type = "rloo"`` without the leave-one-out baseline; gradient surgery or
                alignment with several processes, as both need whole gradients and hidden states; or adapters by role
                with any of these three.
        """
        required_facts(grouping)
        self._adapter_roles = adapter_roles(model)
        self.alignment = alignment or AlignmentSettings()
        _check_settings(learner, grouping, self.alignment, sharding, self._adapter_roles)
        self.model = model
        self.settings = learner
        self.grouping = grouping
        self.version = 0
        self.baselines: dict[str, RunningBaseline] = {}
        self.memory = NO_MEMORY
        self._sharding = sharding
        self._passes = PolicyPasses(model, learner, reference, sharding)
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._named = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._optimizer = torch.optim.AdamW(
            list(self._named.values()),
            lr=learner.learning_rate,
            betas=(0.9, learner.adam_beta2),
            weight_decay=learner.weight_decay,
            fused=True,
        )

    def probe(self, prompts: Sequence[Sequence[int]], role: str | None = None) -> Probe:
        """Return ``make_probe`` of the model, or of a role's specialist; every rank must call this."""
        with active_role(self.model, role):
            return make_probe(self.model, prompts, last_logits=self._passes.last_logits)

    def move_to(self, device: torch.device) -> None:
        """Move model, reference and optimizer to another device; no process may share them.

        A model made on a GPU may wait on the CPU between steps, but one made on the CPU may have layers that only work
        there (see ``PolicyForward``).
        """
        self._optimizer.zero_grad(set_to_none=True)
        self._passes.move_to(device)
        for moments in self._optimizer.state.values():
            moments.update({name: value.to(device) for name, value in moments.items() if isinstance(value, Tensor)})

    def step(self, batch: Batch, traced_tokens: int | None = None) -> UpdateResult:
        """Learn from one batch once; ``version`` rises by one.

        Without an entropy bonus or KL penalty, turns whose advantage is exactly 0 get no forward pass, but count in the
        normaliser; with ``top_advantage_quantile``, neither do those whose advantage is small. With
        ``top_up_episodes``, turns of zero-variance groups leave loss and normaliser (see
        ``advantages.dynamic_sampling``). A minibatch without a gradient takes no optimizer step.

        Adapters by role each learn from their role's turns, with separate minibatches, normaliser and clipping. An
        adapter without a gradient in a step keeps its weights and moments.

        ``traced_tokens`` asks for a trace, with the probabilities of up to that many trained tokens (of those that this
        process computed, where several train together).

        Raises:
            ValueError: the batch is empty or is for another version, a turn is inconsistent, or its role has no adapter
                although there are adapters by role.
            GroupingError: a sample lacks a fact of a key expression.
            ResourceError: gradient surgery would keep more gradients side by side than fit in memory.
            DivergenceError: the loss or its gradient is not finite; weights, version and baselines are those before
                the failing optimizer step.
        """
        start = time.perf_counter()
        if not batch.episodes:
            raise ValueError("the batch has no episodes")
        if batch.learner_version != self.version:
            raise ValueError(f"the batch is for version {batch.learner_version}, the learner is at {self.version}")
        advantages = compute_advantages(batch.episodes, self.settings, self.grouping, self.baselines, self.memory)
        turns = training_turns(batch.episodes, self.version)
        if self.settings.top_up_episodes:
            turns = drop_zero_variance(turns, advantages)
        learning_rate = learning_rate_at(self.version, self.settings)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        roles = [episode.role for episode in batch.episodes]
        by_role = turns_by_role(self.model, turns, roles)
        chosen = largest(advantages.turn_advantages, self.settings.top_advantage_quantile)
        proximal = self._passes.proximal(by_role, chosen)
        traced = () if traced_tokens is None else turns_to_trace(batch.episodes, turns, traced_tokens, self.version)
        update = _Update(proximal, roles, advantages.surgery_groups, TokenTrace(traced))
        for _ in range(self.settings.epochs):
            for minibatches in optimizer_steps(by_role, chosen, self.settings, self._generator):
                self._optimize(minibatches, update)
        trace = None
        if traced_tokens is not None:
            trace = self._trace(batch, advantages, update)
        sample_roles = [sample.role for sample in advantages.samples]
        decay = self.grouping.running_baseline_decay
        self.baselines = updated_baselines(self.baselines, sample_roles, advantages.returns, decay)
        self.memory = advantages.memory
        self.version += 1
        update.sums.gather(self._sharding)
        result = self._result(batch, advantages, turns, update, learning_rate, start)
        return replace(result, trace=trace)

    def _result(
        self,
        batch: Batch,
        advantages: AdvantageBatch,
        turns: Sequence[TrainingTurn],
        update: _Update,
        learning_rate: float,
        start: float,
    ) -> UpdateResult:
        sums = update.sums
        keys = advantages.grouping.keys
        metrics = update_metrics(batch, self.settings, keys, advantages, turns, update.steps, sums.named)
        seconds = time.perf_counter() - start
        metrics |= {"learning_rate": learning_rate, "seconds": seconds, "tokens_per_second": sums.tokens / seconds}
        metrics |= sums.metrics
        record = audit_record(self.version, self.settings, advantages.grouping, advantages, update.steps, metrics)
        used = [turn.turn for turn in turns]
        digests = own_digests(advantages.turn_advantages, used, self.baselines, self._generator)
        return UpdateResult(metrics, record, advantages, digests)

    def _trace(self, batch: Batch, advantages: AdvantageBatch, update: _Update) -> UpdateTrace:
        turns = [turn for episode in batch.episodes for turn in episode.turns]
        passes = update.tokens.passes
        tokens = [turn_tokens(index, turns[index], passes.get(index, ())) for index in sorted(update.tokens.turns)]
        return update_trace(batch, self.settings, advantages, self.baselines, self.memory, update.steps_of_turn, tokens,
                            separate_roles=bool(self._adapter_roles))  # fmt: skip

    def _optimize(self, minibatches: Sequence[Minibatch], update: _Update) -> None:
        """Take one optimizer step on a minibatch, or on one of each role that has its own adapter."""
        for minibatch in minibatches:
            for turn in minibatch.turns:
                update.steps_of_turn.setdefault(turn.turn, []).append(len(update.steps))
        learning = [minibatch for minibatch in minibatches if minibatch.learns]
        if not learning:
            update.steps.append(StepRecord(loss=0.0, grad_norm=0.0, skipped=True))
            return
        self._optimizer.zero_grad(set_to_none=True)  # parameters without a gradient take no step
        found = [self._gradient(minibatch, update) for minibatch in learning]
        loss = sum(value for value, _ in found) / len(found)
        _, surgery = found[0]
        aligned = self._align(learning[0].turns, update)
        norm = clip_by_role(self._named, self._adapter_roles, self.settings.max_grad_norm)
        if not math.isfinite(norm):
            raise self._diverged("the gradient's norm", norm, update)
        self._optimizer.step()
        update.steps.append(
            StepRecord(loss + (aligned or 0.0), norm, skipped=False, surgery=surgery, alignment=aligned)
        )

    def _gradient(self, minibatch: Minibatch, update: _Update) -> tuple[float, SurgeryRecord | None]:
        """Add the learning turns' gradient to ``.grad``; returns the policy loss and gradient surgery's record."""

        def backward(chosen: Sequence[int]) -> float:
            fresh = all(step.skipped for step in update.steps)
            loss = self._passes.backward(
                minibatch, chosen, update.proximal, update.sums, fresh=fresh, trace=(len(update.steps), update.tokens)
            )
            # The loss is the same on every rank, so all of them stop here.
            if not math.isfinite(loss):
                raise self._diverged("the loss", loss, update)
            return loss

        if not update.surgery_groups:
            return backward(minibatch.learns), None
        groups: dict[str, list[int]] = {}
        for index in minibatch.learns:
            groups.setdefault(update.surgery_groups[minibatch.turns[index].turn], []).append(index)
        return apply_surgery(self._named, dict(sorted(groups.items())), backward, self.grouping, self._generator)

    def _align(self, turns: Sequence[TrainingTurn], update: _Update) -> float | None:
        """Add the alignment loss's gradient; returns its value, or None while it is off."""
        if self.alignment.weight == 0:
            return None
        roles = [update.roles[turn.episode] for turn in turns]
        with self._passes.forward.precision(self._passes.device):
            loss = alignment_of_turns(self.model, turns, roles, self.alignment, self._generator)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._diverged("the alignment loss", value, update)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return value

    def _diverged(self, what: str, value: float, update: _Update) -> DivergenceError:
        self._optimizer.zero_grad(set_to_none=True)
        return DivergenceError(
            f"{what} is {value} in update {self.version + 1}, optimizer step {len(update.steps) + 1}; look at "
            "ratio_max and grad_norm of the updates before, then lower learner.learning_rate or max_grad_norm, or "
            "resume from an older checkpoint"
        )

    def state(self) -> LearnerState:
        """Copy everything an exact continuation needs besides the model's weights.

        Every rank must call this; those after the first get no tensors. The copies are whole on the CPU: ``save_state``
        needs no memory for them.
        """
        state = self._state()
        tensors: dict[str, Tensor] = {}
        for name, tensor in state.tensors.items():
            gathered = whole(tensor)
            if self._sharding.rank == 0:
                tensors[name] = gathered.to("cpu", copy=gathered is tensor)
        return LearnerState(tensors, state.record)

    def save_state(self, file: Path | None) -> dict[str, Any]:
        """Write the tensors of ``state`` as safetensors, one after the other; return its record.

        Every rank must call this; those after the first have no file and write nothing.
        """
        state = self._state()
        save_in_turn(state.tensors, file)
        return state.record

    def _state(self) -> LearnerState:
        return packed(self.version, self._optimizer, self._named, self.baselines, self.memory, self._generator)

    def load_state(self, state: LearnerState) -> None:
        """Continue exactly where ``state`` was taken; the model must already hold the weights of that moment.

        Every rank must call this; those after the first need no moments in ``state`` (see ``without_moments``).

        Raises:
            CheckpointError: the state is another model's or incomplete.
        """
        if self._sharding.rank:
            state = with_shapes(state, self._named)
        restored = unpacked(state, self._named)
        self._optimizer.state.clear()
        for parameter, moments in restored.moments.items():
            self._optimizer.state[parameter] = {name: _placed(value, parameter) for name, value in moments.items()}
        self.version, self.baselines, self.memory = restored.version, restored.baselines, restored.memory
        self._generator = restored.generator


def _placed(value: Tensor, parameter: nn.Parameter) -> Tensor:
    """Copy a whole tensor to where its parameter is, or take this rank's share of it."""
    spread = spread_like(value, parameter)
    return value.to(parameter.device, copy=True) if spread is value else spread


def _check_settings(
    learner: LearnerSettings,
    grouping: GroupingSettings,
    alignment: AlignmentSettings,
    sharding: Sharding,
    roles: Sequence[str],
) -> None:
    if learner.loss_type == "rloo" and grouping.baseline != "leave_one_out":
        raise ValueError("learner.loss_type rloo needs grouping.baseline = leave_one_out")
    shared = grouping.gradient_surgery != "none" or alignment.weight > 0
    if sharding.ranks > 1 and shared:
        raise ValueError("gradient surgery and alignment do not work across processes; turn them off, or use one")
    if roles and shared:
        raise ValueError("specialists share no trained weights, so that gradient surgery and alignment have nothing to "
                         "do; turn them off, or train one adapter for all roles")  # fmt: skip
