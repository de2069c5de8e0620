"""TRL's ``GRPOTrainer`` as a yardstick: its loss on the learner's turns. Only this module needs TRL."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from cluster.bench.learner.batches import Episodes, Step, turn_advantages
from grpo_core.settings import LearnerSettings
from services.environments.diplomacy.notation import WORD_PATTERN, words
from services.inference.word_tokenizer import make_word_tokenizer

TRL_ROWS = 10  # turns of one of TRL's passes: padded, about 1,400 tokens


class TrlSide:
    """Runs the loss of a ``GRPOTrainer`` (``loss_type = "grpo"``) over micro-batches, then one AdamW step."""

    def __init__(self, model: nn.Module, settings: LearnerSettings, *, completions_alone: bool) -> None:
        self.model = model.train()  # no dropout; TRL divides by the accumulated passes only when it trains
        self._completions_alone = completions_alone
        self._settings = settings
        self._trainer = _trainer(model, settings)
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, settings.adam_beta2),
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def prepared(self, episodes: Episodes) -> Step:
        """Make a step on these episodes; advantages and padded tensors are made beforehand."""
        passes = trl_inputs(episodes)

        def step() -> Mapping[str, float]:
            self._optimizer.zero_grad(set_to_none=True)
            self._trainer.current_gradient_accumulation_steps = len(passes)
            loss = 0.0
            # TRL's head then selects labelled positions as it does where Triton runs; torch does the arithmetic.
            as_with_triton = mock.patch("trl.trainer.utils._use_triton", return_value=True)
            with as_with_triton if self._completions_alone else nullcontext():
                for inputs in passes:
                    part: Tensor = self._trainer.compute_loss(self.model, inputs)
                    self._trainer.accelerator.backward(part)
                    loss += float(part.detach())
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._settings.max_grad_norm)
            self._optimizer.step()
            return {"loss": loss, "grad_norm": float(norm)}

        return step


def trl_inputs(episodes: Episodes) -> list[dict[str, Tensor]]:
    """Make the inputs of TRL's loss, ``TRL_ROWS`` turns a pass: prompts padded on the left, completions on the right.

    ``tool_mask`` excludes forced tokens from the loss, as it does in TRL for tokens that were not sampled.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    if len(turns) % TRL_ROWS:
        raise ValueError(f"{len(turns)} turns do not fill passes of {TRL_ROWS}")
    prompt = max(len(turn.prompt_ids) for turn in turns)
    completion = max(len(turn.completion_ids) for turn in turns)
    ids = {"prompt_ids": prompt, "prompt_mask": prompt}
    ids |= dict.fromkeys(("completion_ids", "completion_mask", "tool_mask"), completion)
    inputs = {
        **{name: torch.zeros(len(turns), width, dtype=torch.long) for name, width in ids.items()},
        "old_per_token_logps": torch.zeros(len(turns), completion),
        "advantages": torch.tensor(turn_advantages(episodes)),
    }
    for row, turn in enumerate(turns):
        start, end = prompt - len(turn.prompt_ids), len(turn.completion_ids)
        inputs["prompt_ids"][row, start:] = torch.from_numpy(turn.prompt_ids)
        inputs["prompt_mask"][row, start:] = 1
        inputs["completion_ids"][row, :end] = torch.from_numpy(turn.completion_ids)
        inputs["completion_mask"][row, :end] = 1
        inputs["tool_mask"][row, :end] = torch.from_numpy(turn.trained_mask)
        inputs["old_per_token_logps"][row, :end] = torch.from_numpy(turn.logprobs)
    return [
        {name: tensor[start : start + TRL_ROWS] for name, tensor in inputs.items()}
        for start in range(0, len(turns), TRL_ROWS)
    ]


def _trainer(model: nn.Module, learner: LearnerSettings) -> Any:
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            per_device_train_batch_size=TRL_ROWS,
            num_generations=TRL_ROWS,
            loss_type="grpo",
            beta=0.0,
            epsilon=learner.epsilon,
            epsilon_high=learner.epsilon_high,
            temperature=1.0,
        )
        return trl.GRPOTrainer(
            model=model,
            reward_funcs=_no_reward,
            args=settings,
            train_dataset=datasets.Dataset.from_list([{"prompt": "unused"}]),
            processing_class=make_word_tokenizer(words(), WORD_PATTERN),
        )


def _no_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)
