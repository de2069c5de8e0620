"""One update: groups -> advantages -> weights -> micro-batches -> policy loss -> optimizer steps -> audit record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from grpo_core.advantages import RunningBaseline, updated_baselines
from grpo_core.audit import StepRecord, audit_record, update_metrics
from grpo_core.batching import MicroBatch, TrainingTurn, micro_batches, minibatch_shares, training_turns
from grpo_core.diagnostics import DIAGNOSTICS, token_diagnostics
from grpo_core.errors import CheckpointError, DivergenceError
from grpo_core.fast_layers import use_fast_layers
from grpo_core.grouping import parse_expression
from grpo_core.judgement import NO_MEMORY, JudgeMemory, judge
from grpo_core.logprobs import check_head, token_logprobs
from grpo_core.losses import LossTokens, token_losses
from grpo_core.normalizers import turn_token_weights
from grpo_core.optimizer_state import restored_moments, saved_moments
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, FloatArray

_JUDGE = "judge/"  # prefix of the judge's arrays among a state's tensors
_MAXIMA = np.array([name.endswith("_max") for name in DIAGNOSTICS])


@dataclass(frozen=True, slots=True, eq=False)
class UpdateResult:
    """What one update did: flat numbers for the log and the record for the audit folder (JSON-able)."""

    metrics: dict[str, float]
    audit: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LearnerState:
    """Everything besides the weights that an exact continuation needs."""

    # Optimizer moments "exp_avg/<parameter name>" and the judge's arrays "judge/<name>"; safetensors on disk.
    tensors: dict[str, Tensor]
    record: dict[str, Any]  # JSON-able: version, optimizer steps, generator, running baselines, the judge's memory


@dataclass(slots=True)
class _Pass:
    """What the steps of an update share, and sums over its micro-batches."""

    proximal: Mapping[int, Tensor]  # turn -> its trained tokens' log-probabilities under the update's first weights
    steps: list[StepRecord] = field(default_factory=list)
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(DIAGNOSTICS)))
    fresh_gap: float | None = None  # largest |lp - behaviour lp| of turns these very weights had sampled
    tokens: int = 0
    padded: int = 0


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
    ) -> None:
        """Take a Hugging Face causal LM and make its optimizer; the key expressions are checked at once.

        An fp32 model on the CPU gets faster linear layers of the same parameters and values.

        Args:
            model: trained in place.
            learner: how to learn.
            grouping: who is judged against whom.
            seed: of the shuffles into minibatches.
            reference: what ``beta`` keeps the policy near, of the same vocabulary: a copy of the run's first weights,
                also after a resume. It is frozen, never saved, and ignored while ``beta`` is 0.

        Raises:
            GroupingError: a key expression cannot be used.
            ValueError: the model's logits are not plain output embeddings; ``beta > 0`` without a reference of its
                own weights; or ``loss_type = "rloo"`` without the leave-one-out baseline.
        """
        check_head(model)
        for expression in grouping.keys:
            parse_expression(expression, grouping.allow_outcome_keys)
        if learner.loss_type == "rloo" and grouping.baseline != "leave_one_out":
            raise ValueError("learner.loss_type rloo needs grouping.baseline = leave_one_out")
        use_fast_layers(model)
        self._reference = _frozen(reference, model) if learner.beta > 0 else None
        self.model = model.eval()
        self.settings = learner
        self.grouping = grouping
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

    def step(self, batch: Batch) -> UpdateResult:
        """Learn from one batch once; ``version`` rises by one.

        Turns whose advantage is exactly 0 get no forward pass when there is neither an entropy bonus nor a KL penalty:
        their gradient is 0. They still count in the normaliser, so an update of which little is left has a smaller
        gradient; DAPO's resampling of groups without signal would need more games and is not done here. A minibatch
        without any signal takes no optimizer step.

        Raises:
            ValueError: the batch is empty, is meant for another version, or holds a turn that contradicts itself.
            GroupingError: a sample lacks a fact of a key expression.
            DivergenceError: the loss or its gradient is not finite; weights, version and baselines are those before
                the failing optimizer step.
        """
        start = time.perf_counter()
        if not batch.episodes:
            raise ValueError("the batch has no episodes")
        if batch.learner_version != self.version:
            raise ValueError(f"the batch is for version {batch.learner_version}, the learner is at {self.version}")
        judgement = judge(batch.episodes, self.settings, self.grouping, self.baselines, self.memory)
        turns = training_turns(batch.episodes, self.version)
        learning_rate = self._set_learning_rate()
        tokens = sum(len(turn.position_S) for turn in turns)
        totals = _Pass(self._proximal(turns, judgement.turn_advantages))
        normalizer = self.settings.named_normalizer
        for _ in range(self.settings.epochs):
            shares = minibatch_shares(turns, normalizer, self.settings.minibatches, self._generator)
            for share in shares:
                self._optimize(
                    [turns[i] for i in share],
                    judgement.turn_advantages[[turns[i].turn for i in share]],
                    tokens / len(shares),
                    totals,
                )
        self.baselines = updated_baselines(
            self.baselines,
            [sample.role for sample in judgement.samples],
            judgement.returns,
            self.grouping.running_baseline_decay,
        )
        self.memory = judgement.memory
        self.version += 1
        sums = dict(zip(DIAGNOSTICS, totals.sums.tolist(), strict=True))
        metrics = update_metrics(batch, self.settings, self.grouping.keys, judgement, turns, totals.steps, sums)
        seconds = time.perf_counter() - start
        metrics |= {
            "learning_rate": learning_rate,
            "input_tokens": float(totals.tokens),
            "padding_fraction": 1 - totals.tokens / totals.padded if totals.padded else 0.0,
            "seconds": seconds,
            "tokens_per_second": totals.tokens / seconds,
        }
        if totals.fresh_gap is not None:
            metrics["fresh_logprob_gap"] = totals.fresh_gap
        record = audit_record(self.version, self.settings, self.grouping, judgement, totals.steps, metrics)
        return UpdateResult(metrics, record)

    def _optimize(
        self, turns: Sequence[TrainingTurn], advantages: FloatArray, batch_tokens_per_step: float, totals: _Pass
    ) -> None:
        """One optimizer step on one minibatch."""
        weights = turn_token_weights(
            self.settings.named_normalizer,
            [len(turn.position_S) for turn in turns],
            [turn.episode for turn in turns],
            max_completion_length=self.settings.max_completion_length,
            batch_tokens_per_step=batch_tokens_per_step,
        )
        learns = self._learns(advantages)
        if not learns:
            totals.steps.append(StepRecord(loss=0.0, grad_norm=0.0, skipped=True))
            return
        self._optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        for micro in micro_batches(
            [turns[index] for index in learns],
            advantages[learns],
            weights[learns],
            self.settings.tokens_per_microbatch,
            self._device,
            fresh=all(step.skipped for step in totals.steps),
        ):
            loss += self._backward(micro, totals)
        norm = float(nn.utils.clip_grad_norm_(self._named.values(), self.settings.max_grad_norm))
        if not math.isfinite(norm):
            raise self._diverged("the gradient's norm", norm, totals)
        self._optimizer.step()
        totals.steps.append(StepRecord(loss=loss, grad_norm=norm, skipped=False))

    def _learns(self, advantages: FloatArray) -> list[int]:
        """Which turns have a gradient."""
        always = self.settings.entropy_coef > 0 or self.settings.beta > 0
        indices: list[int] = np.flatnonzero((advantages != 0) | always).tolist()
        return indices

    @torch.no_grad()
    def _proximal(self, turns: Sequence[TrainingTurn], turn_advantages: FloatArray) -> dict[int, Tensor]:
        """Log-probabilities under the present weights; empty where the loss needs none.

        A single optimizer step needs none either: its own log-probabilities are the proximal ones.
        """
        settings = self.settings
        if not settings.decoupled or settings.minibatches * settings.epochs == 1:
            return {}
        learning = [turns[index] for index in self._learns(turn_advantages[[turn.turn for turn in turns]])]
        advantages, weights = np.zeros(len(learning), np.float32), np.zeros(len(learning))  # read by no one
        out: dict[int, Tensor] = {}
        for micro in micro_batches(learning, advantages, weights, settings.tokens_per_microbatch, self._device):
            sizes: list[int] = torch.bincount(micro.row_N).tolist()
            chosen = torch.split(token_logprobs(self.model, micro).chosen_N, sizes)
            out |= dict(zip(micro.turns, chosen, strict=True))
        return out

    def _loss_tokens(self, micro: MicroBatch, totals: _Pass) -> LossTokens:
        logprobs = token_logprobs(self.model, micro, entropy_grad=self.settings.entropy_coef > 0)
        proximal_N = reference_N = None
        if self.settings.decoupled:
            recorded = [totals.proximal[turn] for turn in micro.turns] if totals.proximal else None
            proximal_N = logprobs.chosen_N.detach() if recorded is None else torch.cat(recorded)
        if self._reference is not None:
            with torch.no_grad():
                reference_N = token_logprobs(self._reference, micro).chosen_N
        return LossTokens(
            logprobs_N=logprobs.chosen_N,
            entropy_N=logprobs.entropy_N,
            behaviour_N=micro.behaviour_N,
            advantages_N=micro.advantage_N,
            row_N=micro.row_N,
            rows=len(micro.turns),
            proximal_N=proximal_N,
            reference_N=reference_N,
        )

    def _backward(self, micro: MicroBatch, totals: _Pass) -> float:
        tokens = self._loss_tokens(micro, totals)
        losses = token_losses(tokens, self.settings)
        loss = (micro.weight_N * losses.loss_N).sum()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._diverged("the loss", value, totals)
        loss.backward()  # type: ignore[no-untyped-call]
        seen = token_diagnostics(tokens, losses, self.settings).cpu().numpy()
        if micro.fresh:
            totals.fresh_gap = max(totals.fresh_gap or 0.0, float(seen[DIAGNOSTICS.index("gap_max")]))
        totals.sums = np.where(_MAXIMA, np.maximum(totals.sums, seen), totals.sums + seen)
        totals.tokens += micro.tokens
        totals.padded += micro.input_ids.numel()
        return value

    def _diverged(self, what: str, value: float, totals: _Pass) -> DivergenceError:
        self._optimizer.zero_grad(set_to_none=True)
        return DivergenceError(
            f"{what} is {value} in update {self.version + 1}, optimizer step {len(totals.steps) + 1}; look at "
            "ratio_max and grad_norm of the updates before, then lower learner.learning_rate or max_grad_norm, or "
            "resume from an older checkpoint"
        )

    def _set_learning_rate(self) -> float:
        """Linear warm-up over updates, then constant."""
        warmup = self.settings.lr_warmup_updates
        factor = min(1.0, (self.version + 1) / warmup) if warmup else 1.0
        for group in self._optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * factor
        return self.settings.learning_rate * factor

    def state(self) -> LearnerState:
        """A copy of everything an exact continuation needs besides the model's weights."""
        tensors, steps = saved_moments(self._optimizer, self._named)
        judged, arrays = self.memory.export()
        tensors |= {f"{_JUDGE}{name}": torch.tensor(array) for name, array in arrays.items()}
        record = {
            "version": self.version,
            "optimizer_steps": steps,
            "generator": self._generator.bit_generator.state,
            "baselines": {role: [line.mean, line.variance] for role, line in sorted(self.baselines.items())},
            "judge": judged,
        }
        return LearnerState(tensors, record)

    def load_state(self, state: LearnerState) -> None:
        """Continue exactly where ``state`` was taken; the model must already hold the weights of that moment.

        Raises:
            CheckpointError: the state is another model's, or lacks something.
        """
        record = state.record
        try:
            baselines = {role: RunningBaseline(*pair) for role, pair in record["baselines"].items()}
            restored = restored_moments(state.tensors, record["optimizer_steps"], self._named)
            arrays = {
                name.removeprefix(_JUDGE): tensor.numpy().copy()
                for name, tensor in state.tensors.items()
                if name.startswith(_JUDGE)
            }
            memory = JudgeMemory.restore(record["judge"], arrays)
            version = int(record["version"])
            self._generator.bit_generator.state = record["generator"]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the learner state does not fit this model or is incomplete: {error!r}") from error
        self._optimizer.state.clear()
        for parameter, moments in restored.items():
            self._optimizer.state[parameter] = moments
        self.version, self.baselines, self.memory = version, baselines, memory


def _frozen(reference: nn.Module | None, model: nn.Module) -> nn.Module:
    if reference is None:
        raise ValueError("learner.beta > 0 needs a reference: a copy of the weights that the run started from")
    if {id(value) for value in reference.parameters()} & {id(value) for value in model.parameters()}:
        raise ValueError("the reference shares parameters with the policy and would move with it; copy the model")
    check_head(reference)
    use_fast_layers(reference)
    return reference.eval().requires_grad_(False)
