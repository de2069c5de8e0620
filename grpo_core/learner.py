"""One update: groups -> advantages -> weights -> micro-batches -> clipped loss -> optimizer steps -> audit record."""

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
from grpo_core.errors import CheckpointError, DivergenceError
from grpo_core.fast_layers import use_fast_layers
from grpo_core.grouping import parse_expression
from grpo_core.judgement import judge
from grpo_core.logprobs import check_head, token_logprobs
from grpo_core.losses import DIAGNOSTICS, clipped_surrogate, token_diagnostics, turn_token_weights
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, FloatArray

_MAXIMA = np.array([name.endswith("_max") for name in DIAGNOSTICS])


@dataclass(frozen=True, slots=True, eq=False)
class UpdateResult:
    """What one update did: flat numbers for the log and the record for the audit folder (JSON-able)."""

    metrics: dict[str, float]
    audit: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LearnerState:
    """Everything besides the weights that an exact continuation needs."""

    tensors: dict[str, Tensor]  # optimizer moments, "exp_avg/<parameter name>"; safetensors on disk
    record: dict[str, Any]  # JSON-able: version, optimizer steps, generator, running baselines


@dataclass(slots=True)
class _Pass:
    """Sums over the micro-batches of an update."""

    steps: list[StepRecord] = field(default_factory=list)
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(DIAGNOSTICS)))
    fresh_gap: float | None = None  # largest |lp - behaviour lp| of turns these very weights had sampled
    tokens: int = 0
    padded: int = 0


class Learner:
    """Owns the optimizer of one policy; the model is trained in place.

    The model stays in evaluation mode (no dropout), as the engine that samples has none either.
    """

    def __init__(self, model: nn.Module, learner: LearnerSettings, grouping: GroupingSettings, seed: int) -> None:
        """Take a Hugging Face causal LM and make its optimizer; the key expressions are checked at once.

        An fp32 model on the CPU gets faster linear layers of the same parameters and values.

        Raises:
            GroupingError: a key expression cannot be used.
            ValueError: the model's logits are not plain output embeddings.
        """
        check_head(model)
        for expression in grouping.keys:
            parse_expression(expression, grouping.allow_outcome_keys)
        use_fast_layers(model)
        self.model = model.eval()
        self.settings = learner
        self.grouping = grouping
        self.version = 0
        self.baselines: dict[str, RunningBaseline] = {}
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

        Turns whose advantage is exactly 0 get no forward pass when there is no entropy bonus: their gradient is 0.
        They still count in the normaliser. A minibatch without any signal takes no optimizer step.

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
        judgement = judge(batch.episodes, self.settings, self.grouping, self.baselines)
        turns = training_turns(batch.episodes, self.version)
        learning_rate = self._set_learning_rate()
        totals = _Pass()
        for _ in range(self.settings.epochs):
            for share in minibatch_shares(turns, self.settings.normalizer, self.settings.minibatches, self._generator):
                self._optimize(
                    [turns[i] for i in share],
                    judgement.turn_advantages[[turns[i].turn for i in share]],
                    totals,
                )
        self.baselines = updated_baselines(
            self.baselines,
            [sample.role for sample in judgement.samples],
            judgement.returns,
            self.grouping.running_baseline_decay,
        )
        self.version += 1
        sums = dict(zip(DIAGNOSTICS, totals.sums.tolist(), strict=True))
        metrics = update_metrics(batch, self.grouping.keys, judgement, turns, totals.steps, sums)
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
        return UpdateResult(metrics, audit_record(self.version, self.grouping, judgement, totals.steps, metrics))

    def _optimize(self, turns: Sequence[TrainingTurn], advantages: FloatArray, totals: _Pass) -> None:
        """One optimizer step on one minibatch."""
        weights = turn_token_weights(
            self.settings.normalizer,
            [len(turn.position_S) for turn in turns],
            [turn.episode for turn in turns],
        )
        learns: list[int] = np.flatnonzero((advantages != 0) | (self.settings.entropy_coef > 0)).tolist()
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

    def _backward(self, micro: MicroBatch, totals: _Pass) -> float:
        settings = self.settings
        logprobs = token_logprobs(self.model, micro, entropy_grad=settings.entropy_coef > 0)
        loss_N = clipped_surrogate(
            logprobs.chosen_N, micro.behaviour_N, micro.advantage_N, settings.epsilon, settings.epsilon_high
        )
        if settings.entropy_coef > 0:
            loss_N = loss_N - settings.entropy_coef * logprobs.entropy_N
        loss = (micro.weight_N * loss_N).sum()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._diverged("the loss", value, totals)
        loss.backward()  # type: ignore[no-untyped-call]
        sums = token_diagnostics(
            logprobs.chosen_N.detach(),
            micro.behaviour_N,
            micro.advantage_N,
            logprobs.entropy_N.detach(),
            settings.epsilon,
            settings.epsilon_high,
        )
        seen = sums.cpu().numpy()
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
        tensors: dict[str, Tensor] = {}
        steps: dict[str, float] = {}
        for name, parameter in self._named.items():
            moments = self._optimizer.state.get(parameter)
            if moments:
                tensors[f"exp_avg/{name}"] = moments["exp_avg"].detach().cpu().clone()
                tensors[f"exp_avg_sq/{name}"] = moments["exp_avg_sq"].detach().cpu().clone()
                steps[name] = float(moments["step"])
        record = {
            "version": self.version,
            "optimizer_steps": steps,
            "generator": self._generator.bit_generator.state,
            "baselines": {role: [line.mean, line.variance] for role, line in sorted(self.baselines.items())},
        }
        return LearnerState(tensors, record)

    def load_state(self, state: LearnerState) -> None:
        """Continue exactly where ``state`` was taken; the model must already hold the weights of that moment.

        Raises:
            CheckpointError: the state is another model's, or lacks something.
        """
        record = state.record
        try:
            steps: Mapping[str, float] = record["optimizer_steps"]
            baselines = {role: RunningBaseline(*pair) for role, pair in record["baselines"].items()}
            restored: dict[nn.Parameter, dict[str, Tensor]] = {}
            for name, count in steps.items():
                parameter = self._named[name]
                restored[parameter] = {
                    # A fused optimizer wants its step count beside the parameter.
                    "step": torch.tensor(count, dtype=torch.float32, device=parameter.device)
                }
                for kind in ("exp_avg", "exp_avg_sq"):
                    moment = state.tensors[f"{kind}/{name}"]
                    if moment.shape != parameter.shape:
                        raise ValueError(f"{name}: {tuple(moment.shape)} against {tuple(parameter.shape)}")
                    restored[parameter][kind] = moment.to(parameter.device, copy=True)
            version = int(record["version"])
            self._generator.bit_generator.state = record["generator"]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the learner state does not fit this model or is incomplete: {error!r}") from error
        self._optimizer.state.clear()
        for parameter, moments in restored.items():
            self._optimizer.state[parameter] = moments
        self.version, self.baselines = version, baselines
