"""One update of a small policy, by the groups, advantages, weights and losses that language models are trained with.

Each step of an episode is a turn of one token. With a critic the samples' values are generalised advantages instead of
returns; their groups' means and deviations are taken from them all the same, so it is PPO with grouped normalisation.
Axes: E episodes, N steps of all of them in episode order, D observation size, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grpo_core.advantages.generalised import generalised_advantages
from grpo_core.advantages.group_baseline import RunningBaseline, group_advantages, updated_baselines
from grpo_core.advantages.grouping import required_facts
from grpo_core.advantages.pipeline import NO_MEMORY, AdvantageBatch, compute_advantages
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.errors import DivergenceError
from grpo_core.gradients.gradient_surgery import SurgeryRecord, apply_surgery
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.small_networks.networks import Critic, SmallPolicy
from grpo_core.traces.token_trace import TokenTrace
from grpo_core.traces.update_trace import UpdateTrace, shortest, turn_pass, update_trace
from grpo_core.training.audit import StepRecord, audit_record
from grpo_core.training.lr_schedule import learning_rate_at
from grpo_core.types import Batch, Episode, FloatArray

_VALUE_WEIGHT = 0.5  # of the critic's loss, as is usual (arXiv 1707.06347)


@dataclass(frozen=True, slots=True, eq=False)
class SmallBatch:
    """The episodes of one update, and what their steps saw and chose."""

    episodes: tuple[Episode, ...]
    observations_ND: Tensor
    legal_NA: Tensor | None  # None: all actions always are
    actions: Tensor  # (N,) int64, or (N, A) numbers
    logprobs_N: Tensor  # of the policy that chose
    last_ED: Tensor  # what an episode's seat saw when it ended
    cut_off_E: Tensor  # True where a limit of steps ended it


@dataclass(frozen=True, slots=True, eq=False)
class SmallUpdate:
    """One update's advantages, its optimizer steps and what they say of the policy."""

    advantages: AdvantageBatch
    steps: Sequence[StepRecord]
    entropy: float  # nats a step, before the update
    largest_ratio_gap: float  # |log ratio| of the last pass
    trace: UpdateTrace | None = None  # if it was asked for, and there is no critic

    def audit(self, version: int, learner: LearnerSettings) -> dict[str, Any]:
        """The audit record of the update that made ``version``, as language models have it."""
        metrics = {"entropy": self.entropy, "largest_ratio_gap": self.largest_ratio_gap}
        return audit_record(version, learner, self.advantages.grouping, self.advantages, self.steps, metrics)


class SmallLearner:
    """Trains a small policy, and its critic if it has one, in place."""

    def __init__(
        self,
        policy: SmallPolicy,
        learner: LearnerSettings,
        grouping: GroupingSettings,
        seed: int,
        *,
        critic: Critic | None = None,
        gae_lambda: float = 0.95,
    ) -> None:
        """``gae_lambda`` in [0, 1] is the generalised advantages' decay (arXiv 1506.02438); they need a critic.

        Raises:
            GroupingError: a key expression cannot be used.
            ValueError: a critic without ``returns = "per_phase"``, as it values steps; ``beta > 0``, for which there is
                no reference here; or settings that leave turns out of an update, which saves small networks nothing.
        """
        required_facts(grouping)
        if critic is not None and learner.returns != "per_phase":
            raise ValueError("a critic values steps: learner.returns is to be per_phase")
        if learner.beta > 0:
            raise ValueError("small policies have no reference: learner.beta is to be 0")
        if learner.top_advantage_quantile < 1 or learner.top_up_episodes:
            raise ValueError(
                "small policies learn from all steps: leave top_advantage_quantile and top_up_episodes as they are"
            )
        self.policy, self.critic = policy, critic
        self.settings, self.grouping = learner, grouping
        self.version = 0
        self.baselines: dict[str, RunningBaseline] = {}
        self.memory = NO_MEMORY
        self._gae_lambda = gae_lambda
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._modules: list[nn.Module] = [policy] if critic is None else [policy, critic]
        self._named = {f"{number}.{name}": value for number, each in enumerate(self._modules)
                       for name, value in each.named_parameters()}  # fmt: skip
        self._optimizer = torch.optim.AdamW(
            list(self._named.values()), lr=learner.learning_rate, betas=(0.9, learner.adam_beta2), eps=1e-5,
            weight_decay=learner.weight_decay,
        )  # fmt: skip

    def step(self, batch: SmallBatch, traced_steps: int | None = None) -> SmallUpdate:
        """Learn from one batch; ``version`` rises by one.

        ``traced_steps`` asks for a trace, with the probabilities of up to that many steps. An update with a critic has
        none: what the critic said would be missing.

        Raises:
            ValueError: the batch has no episodes.
            GroupingError: a sample lacks a fact of a key expression.
            DivergenceError: a loss or gradient is not finite; the weights are those before that optimizer step.
        """
        if not batch.episodes:
            raise ValueError("the batch has no episodes")
        found = compute_advantages(batch.episodes, self.settings, self.grouping, self.baselines, self.memory)
        values: FloatArray | None = None
        if self.critic is not None:
            gains, values = self._generalised(batch)
            found = self._with_gains(found, gains)
        targets_N = None if values is None else torch.from_numpy(values)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate_at(self.version, self.settings)
        steps: list[StepRecord] = []
        steps_of_turn: dict[int, list[int]] = {}
        trace = TokenTrace(_first_steps(batch.episodes, traced_steps or 0))
        advantages_N = torch.from_numpy(found.turn_advantages)
        owners = np.repeat(np.arange(len(batch.episodes)), [len(episode.turns) for episode in batch.episodes])
        with torch.no_grad():
            before = self.policy(batch.observations_ND, batch.legal_NA)
            entropy = float(before.entropy().mean())
        for _ in range(self.settings.epochs):
            order = self._generator.permutation(len(owners))
            parts = np.array_split(order, min(self.settings.minibatches, len(order)))
            for part in parts:
                for turn in part.tolist():
                    steps_of_turn.setdefault(turn, []).append(len(steps))
                traced = (len(steps), trace)
                steps.append(self._optimize(batch, np.sort(part), advantages_N, owners, found, targets_N, traced))
        with torch.no_grad():
            now_N = self.policy(batch.observations_ND, batch.legal_NA).logprobs(batch.actions)
            gap = float((now_N - batch.logprobs_N).abs().max())
        kept = None
        if traced_steps is not None and self.critic is None:
            kept = self._trace(batch, found, steps_of_turn, trace)
        decay = self.grouping.running_baseline_decay
        roles = [sample.role for sample in found.samples]
        self.baselines = updated_baselines(self.baselines, roles, found.returns, decay)
        self.memory = found.memory
        self.version += 1
        return SmallUpdate(found, steps, entropy, gap, kept)

    def _trace(
        self, batch: SmallBatch, found: AdvantageBatch, steps: Mapping[int, Sequence[int]], tokens: TokenTrace
    ) -> UpdateTrace:
        choices = [
            {
                "turn": index,
                "temperature": 1.0,
                "words": [_action_text(batch.actions[index])],
                "prompt_text": _observation_text(batch.observations_ND[index]),
                "trained": [0],
                "admissible": [0 if batch.legal_NA is None else int(batch.legal_NA[index].sum())],
                "behaviour": shortest([float(batch.logprobs_N[index])]),
                "passes": [turn_pass(each) for each in tokens.passes.get(index, ())],
            }
            for index in sorted(tokens.turns)
        ]
        whole = Batch(batch.episodes, self.version)
        return update_trace(whole, self.settings, found, self.baselines, self.memory, steps, choices,
                            trained=[1] * len(batch.logprobs_N))  # fmt: skip

    def _optimize(
        self,
        batch: SmallBatch,
        chosen: np.ndarray[Any, Any],
        advantages_N: Tensor,
        owners: np.ndarray[Any, Any],
        found: AdvantageBatch,
        targets_N: Tensor | None,
        trace: tuple[int, TokenTrace],
    ) -> StepRecord:
        weights = turn_token_weights(
            self.settings.named_normalizer, np.ones(len(chosen), np.int64).tolist(), owners[chosen].tolist(),
            max_completion_length=self.settings.max_completion_length, batch_tokens_per_step=float(len(chosen)),
        )  # fmt: skip
        weight_of = dict(zip(chosen.tolist(), weights.tolist(), strict=True))

        def backward(members: Sequence[int]) -> float:
            index = torch.as_tensor(members, dtype=torch.int64)
            weights_N = torch.tensor([weight_of[int(member)] for member in members], dtype=torch.float32)
            loss = self._loss(batch, index, advantages_N, weights_N, targets_N, trace)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise DivergenceError(f"the loss is {value} in update {self.version + 1}; lower learner.learning_rate")
            loss.backward()  # type: ignore[no-untyped-call]
            return value

        self._optimizer.zero_grad(set_to_none=True)
        surgery: SurgeryRecord | None = None
        if found.surgery_groups:
            groups: dict[str, list[int]] = {}
            for member in chosen.tolist():
                groups.setdefault(found.surgery_groups[member], []).append(member)
            trained: Mapping[str, Tensor] = self._named
            loss, surgery = apply_surgery(
                trained, dict(sorted(groups.items())), backward, self.grouping, self._generator
            )
        else:
            loss = backward(chosen.tolist())
        # Apart, since they share no weights: the critic's gradient grows with the rewards, the policy's does not.
        norms = [
            float(nn.utils.clip_grad_norm_(each.parameters(), self.settings.max_grad_norm)) for each in self._modules
        ]
        norm = norms[0]
        if not all(map(math.isfinite, norms)):
            raise DivergenceError(
                f"a gradient is {sum(norms)} in update {self.version + 1}; lower learner.learning_rate"
            )
        self._optimizer.step()
        return StepRecord(loss, norm, skipped=False, surgery=surgery)

    def _loss(
        self,
        batch: SmallBatch,
        index: Tensor,
        advantages_N: Tensor,
        weights_N: Tensor,
        targets_N: Tensor | None,
        trace: tuple[int, TokenTrace],
    ) -> Tensor:
        legal_NA = None if batch.legal_NA is None else batch.legal_NA[index]
        observations_ND = batch.observations_ND[index]
        chosen = self.policy(observations_ND, legal_NA)
        tokens = LossTokens(
            logprobs_N=chosen.logprobs(batch.actions[index]),
            entropy_N=chosen.entropy(),
            behaviour_N=batch.logprobs_N[index],
            advantages_N=advantages_N[index],
            row_N=torch.arange(len(index)),
            rows=len(index),
        )
        step, kept = trace
        if kept.turns:
            kept.add(step, index.tolist(), weights_N, tokens)
        loss = (token_losses(tokens, self.settings).loss_N * weights_N).sum()
        if self.critic is not None and targets_N is not None:
            errors_N = self.critic(observations_ND) - targets_N[index]
            loss = loss + _VALUE_WEIGHT * (errors_N.square() * weights_N).sum()
        return loss

    def _generalised(self, batch: SmallBatch) -> tuple[FloatArray, FloatArray]:
        """Generalised advantages of all steps, and what the critic is to say of their states; each (N,)."""
        assert self.critic is not None
        with torch.no_grad():
            values = self.critic(batch.observations_ND).double().numpy()
            last = (self.critic(batch.last_ED) * batch.cut_off_E).double().numpy()  # 0 where nothing can follow
        gains, start = np.zeros(len(values)), 0
        for episode, worth in zip(batch.episodes, last.tolist(), strict=True):
            own = slice(start, start + len(episode.turns))
            gains[own] = generalised_advantages(
                episode.turns, values[own], worth, self.settings.discount, self._gae_lambda
            )
            start = own.stop
        return gains.astype(np.float32), (gains + values).astype(np.float32)

    def _with_gains(self, found: AdvantageBatch, gains: FloatArray) -> AdvantageBatch:
        """The same groups, whose statistics are those of the generalised advantages."""
        owners = np.array([sample.episode for sample in found.samples], np.int64)
        advantages, statistics = group_advantages(
            gains, found.groups, {}, scale=self.grouping.scale_rewards,
            leave_one_out=self.grouping.baseline == "leave_one_out", episodes=owners,
        )  # fmt: skip
        return replace(found, returns=gains, advantages=advantages, group_statistics=statistics)


def _first_steps(episodes: Sequence[Episode], most: int) -> range:
    """The steps of the first episodes, as far as all of an episode's are among the first ``most``; at least one's."""
    end = 0
    for episode in episodes:
        if end > 0 and end + len(episode.turns) > most:
            break
        end += len(episode.turns)
    return range(min(end, most))


def _action_text(action: Tensor) -> str:
    """A number of an action, or the numbers of a vector."""
    if action.ndim == 0:
        return f"action {int(action)}"
    return "[" + ", ".join(f"{value:.3g}" for value in action.tolist()) + "]"


def _observation_text(observation: Tensor) -> str:
    return "saw " + ", ".join(f"{value:.3g}" for value in observation.tolist()[:64])
