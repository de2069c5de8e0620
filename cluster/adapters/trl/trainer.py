"""TRL's ``GRPOTrainer`` with our episodes in the place of its completions.

    config = grpo_config(LearnerSettings(loss_type="dapo"), "out", max_steps=10)
    EpisodeTrainer(model, tokenizer, play, config, LearnerSettings(loss_type="dapo"), GroupingSettings()).train()

``play(model, update)`` plays with the model and returns the episodes of one update, the first being 0. They have one
turn or a hundred, under legal-order masks or free, against any players. Advantages are ours, with groups by role and
fallbacks.
The loss, the optimizer, schedules, callbacks, logs and checkpoints are TRL's. A checkpoint of TRL's has no running
baselines of roles: a resumed training begins them again from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.adapters.trl.rows import Rows, loss_rows, masked_logits
from grpo_core.advantages.group_baseline import RunningBaseline, updated_baselines
from grpo_core.advantages.pipeline import NO_MEMORY, compute_advantages
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Episode

try:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error.name} is not installed: pip install 'entente[trl]'", name=error.name) from error

Play = Callable[[PreTrainedModel, int], Sequence[Episode]]

# Options of TRL's that change the loss, with the only values under which it is that of our episodes.
_PLAIN = {
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "off_policy_mask_threshold": None,
    "top_entropy_quantile": 1.0,
}

# What a mean over one micro-batch is a mean of, by TRL's loss; the others divide by the tokens of the whole batch.
_MEANS = {"grpo": "share", "dr_grpo": "share", "bnpo": "token_share"}


def grpo_config(learner: LearnerSettings, output_dir: Path | str, **options: Any) -> GRPOConfig:
    """TRL's options for our section ``[learner]``; ``options`` are further ones of TRL's, such as ``max_steps``.

    An update is ``learner.epochs`` optimizer steps, of all turns each: ``learner.minibatches`` does not count here. The
    learning rate rises over ``learner.lr_warmup_updates``, from 0, so the very first step changes no weights; it falls,
    if it does, until ``max_steps``.

    Raises ValueError for a setting that TRL's trainer does not have.
    """
    default = LearnerSettings(
        loss_type=learner.loss_type,
        epsilon_high=learner.epsilon_high,
        max_completion_length=learner.max_completion_length,
    )
    refused = ("beta", "decoupled", "entropy_coef", "off_policy_mask_threshold", "top_advantage_quantile")
    for key in (*refused, "activation_offloading", "top_up_episodes"):
        if getattr(learner, key) != getattr(default, key):
            raise ValueError(f"learner.{key}: TRL's trainer does not get it here; leave it at its default")
    if learner.loss_type == "rloo":
        raise ValueError("learner.loss_type: rloo is no loss of GRPOTrainer; take grpo, bnpo, dr_grpo, dapo or cispo")
    if learner.named_normalizer != default.model_copy(update={"normalizer": "auto"}).named_normalizer:
        raise ValueError("learner.normalizer: TRL's losses have their own; leave it at auto")
    settings: dict[str, Any] = {
        "loss_type": learner.loss_type,
        "importance_sampling_level": learner.importance_sampling_level,
        "epsilon": learner.epsilon,
        "epsilon_high": learner.epsilon_high,
        "delta": learner.delta,
        "beta": 0.0,
        "learning_rate": learner.learning_rate,
        # TRL's "constant" has no warm-up.
        "lr_scheduler_type": {"constant": "constant_with_warmup"}.get(
            learner.lr_scheduler_type, learner.lr_scheduler_type
        ),
        "warmup_steps": learner.lr_warmup_updates * learner.epochs,
        "weight_decay": learner.weight_decay,
        "adam_beta2": learner.adam_beta2,
        "max_grad_norm": learner.max_grad_norm,
        "num_iterations": learner.epochs,
        "max_completion_length": learner.max_completion_length or 256,
        "bf16": learner.bf16,
        "gradient_checkpointing": learner.gradient_checkpointing,
        "per_device_train_batch_size": 2,  # TRL wants a multiple of num_generations; neither bounds our rows
        "num_generations": 2,
        "report_to": "none",
    }
    return GRPOConfig(output_dir=str(output_dir), **settings | options)


class EpisodeTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL has no types
    """Each update plays once, and takes ``num_iterations`` optimizer steps on what was played.

    ``gradient_accumulation_steps`` is the number of micro-batches of a step.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        play: Play,
        args: GRPOConfig,
        learner: LearnerSettings,
        grouping: GroupingSettings,
        **options: Any,
    ) -> None:
        """``learner`` says what returns and discounts are; ``options`` are those of TRL's trainer, such as callbacks.

        Raises ValueError for options under which TRL's loss would not be that of these episodes.
        """
        if args.beta:
            raise ValueError("beta: there is no reference policy for masked turns; set it to 0")
        for key, plain in _PLAIN.items():
            if getattr(args, key) != plain:
                raise ValueError(f"{key}: it is not tested on masked turns; set it to {plain}")
        if args.world_size > 1 or args.n_gpu > 1:
            raise ValueError(
                f"world_size is {args.world_size} and n_gpu {args.n_gpu}: each process would play the same games and "
                "make its own groups; start one process, with one GPU in CUDA_VISIBLE_DEVICES"
            )
        if isinstance(model, PeftModel) or options.get("peft_config") is not None:
            raise ValueError(
                "peft_config: play() takes whole models, no LoRA adapters; leave it out, or merge the adapters "
                "with merge_and_unload()"
            )
        if args.use_vllm:
            raise ValueError("use_vllm: play() brings its own engine; leave it off")
        if args.loss_type not in (*_MEANS, "dapo", "cispo"):
            raise ValueError(
                f"loss_type: {args.loss_type} has no counterpart here; take grpo, bnpo, dr_grpo, dapo, cispo"
            )
        if args.steps_per_generation != args.gradient_accumulation_steps:
            raise ValueError("steps_per_generation: one optimizer step takes all that was played; leave it unset")
        if grouping.gradient_surgery != "none":
            raise ValueError("grouping.gradient_surgery: it needs gradients of groups, which TRL does not take apart")
        self._play, self._learner, self._grouping = play, learner, grouping
        self._baselines: Mapping[str, RunningBaseline] = {}
        self._memory = NO_MEMORY
        self._parts: list[Rows] = []
        self._rows: Rows = {}
        # TRL counts steps by a data set; its rows are never read.
        unread = [{"prompt": "unread"}] * (args.generation_batch_size // args.num_generations)
        super().__init__(
            model=model,
            reward_funcs=_no_reward,
            args=args,
            train_dataset=Dataset.from_list(unread),
            processing_class=tokenizer,
            **options,
        )

    def _prepare_inputs(self, generation_batch: Any) -> Rows:  # noqa: ARG002  # TRL's rows are not read
        if not self.model.training:
            raise ValueError("evaluation: TRL would generate completions of its own; evaluate with entente evaluate")
        parts = self.args.steps_per_generation
        if self._step % (parts * self.num_iterations) == 0 or not self._parts:
            self._parts = self._played(parts)
        rows: Rows = self._parts[self._step % parts]
        return rows

    def _played(self, parts: int) -> list[Rows]:
        """Play, and make the micro-batches of the update."""
        self.model.eval()
        update = self.state.global_step // self.num_iterations  # TRL counts optimizer steps
        episodes = self._play(self.accelerator.unwrap_model(self.model), update)
        self.model.train()
        if not episodes:
            raise ValueError("play() returned no episodes")
        found = compute_advantages(episodes, self._learner, self._grouping, self._baselines, self._memory)
        roles = [sample.role for sample in found.samples]
        self._baselines = updated_baselines(
            self._baselines, roles, found.returns, self._grouping.running_baseline_decay
        )
        self._memory = found.memory
        metrics = self._metrics["train"]
        metrics["reward"].append(float(np.mean([episode.reward for episode in episodes])))
        metrics["frac_reward_zero_std"].append(float(np.mean(found.advantages == 0)))
        rows = loss_rows(episodes, found.turn_advantages, parts)
        return [{name: value.to(self.accelerator.device) for name, value in part.items()} for part in rows]

    def compute_loss(
        self, model: nn.Module, inputs: Rows, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """TRL's loss; micro-batches count by what they hold, so that their number does not change the update."""
        self._rows = inputs
        loss: Tensor = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        name = _MEANS.get(self.loss_type)
        return loss if name is None else loss * inputs[name]

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        *_: Any,
        compute_entropy: bool = False,
        **__: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        """As TRL's, over the ids that were admissible, at the temperature of each turn."""
        positions_BL = (attention_mask.cumsum(1) - 1).clamp(min=0)
        with self.accelerator.autocast():
            logits_BTV = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=positions_BL,
                logits_to_keep=logits_to_keep + 1,
            ).logits[:, -logits_to_keep - 1 : -1]
        logprobs_BTV = torch.log_softmax(masked_logits(logits_BTV, self._rows), dim=-1)
        chosen_BT1 = input_ids[:, -logits_to_keep:, None]
        entropies_BT = None
        if compute_entropy:
            finite_BTV = logprobs_BTV.detach().masked_fill(logprobs_BTV == -torch.inf, 0.0)
            entropies_BT = -(logprobs_BTV.detach().exp() * finite_BTV).sum(-1)
        return logprobs_BTV.gather(2, chosen_BT1).squeeze(2), entropies_BT, None


def _no_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    raise ValueError(f"TRL scored {len(completions)} completions of its own, which it has no cause to")
