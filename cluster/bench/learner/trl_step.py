"""The learner's step beside the loss step of TRL's ``GRPOTrainer``: tokens a second and peak memory."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from cluster.adapters.trl.rows import padded_turns
from cluster.bench.figure import Figure, MissingRequirementError, interleaved_seconds, one_thread
from cluster.bench.learner.batches import (
    LONGEST_TURN,
    TURNS_EACH,
    VOCABULARY,
    Episodes,
    LearnerSide,
    Step,
    ragged_episodes,
    require_equal,
    turn_advantages,
)
from cluster.bench.models import small_model
from cluster.bench.processes import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.settings import LearnerSettings
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.inference.word_tokenizer import make_word_tokenizer

TRL_ROWS = 10  # turns of one of TRL's passes: padded, about 1,400 tokens
WARM_UP_EPISODES = 4  # the smallest batch
SETTINGS = LearnerSettings(
    learning_rate=1e-5, lr_warmup_updates=0, minibatches=1, tokens_per_microbatch=TRL_ROWS * LONGEST_TURN
)


class Case(NamedTuple):
    """The size of one comparison."""

    vocabulary: int
    episodes: int
    turns: int  # of each episode
    most_rounds: int


# With many ids TRL takes 20 s for two passes: fewer rounds keep the benchmark under five minutes.
CASES = (Case(VOCABULARY, 20, TURNS_EACH, most_rounds=10), Case(150_000, 4, 5, most_rounds=2))

Side = Literal["free", "masked", "trl", "trl_completions"]
OURS: dict[Side, str] = {"free": "free text", "masked": "legal-order mask"}
YARDSTICKS: dict[Side, str] = {"trl": "TRL", "trl_completions": "TRL, scoring completions alone"}
SIDES: tuple[Side, ...] = (*OURS, *YARDSTICKS)


def run(rounds: int) -> list[Figure]:
    """Time one optimizer step on the same ragged turns, small policy, one thread, ``rounds`` alternating a side.

    Freely decoded turns are the same problem for both, so losses and gradient norms are compared first. Under
    legal-order masks the learner has less to do; TRL has no masks. TRL is measured as installed, which on a CPU scores
    prompts too, and made to score completions alone, as on a GPU. A pass of either side holds at most ten turns of the
    longest length, so that memory can be compared. Both count every prompt and completion token, padding excluded.

    Raises MissingRequirementError without TRL, RuntimeError if the two sides' losses or gradient norms differ.
    """
    if importlib.util.find_spec("trl") is None:
        raise MissingRequirementError("TRL is not installed; get it with: pip install 'trl>=1.16,<1.17'")
    with one_thread():
        return [figure for case in CASES for figure in _figures(case, min(rounds, case.most_rounds))]


def _figures(case: Case, rounds: int) -> list[Figure]:
    vocabulary = case.vocabulary
    episodes = {side: side_episodes(side, vocabulary, case.episodes, case.turns) for side in SIDES}
    steps = {side: make_side(side, vocabulary).prepared(episodes[side]) for side in SIDES}
    check_agreement({side: steps[side]() for side in SIDES})  # these first steps warm up, too
    seconds = interleaved_seconds(steps, rounds)
    tokens = sum(episode.tokens for episode in episodes["free"])
    work = f"{case.episodes * case.turns} turns of 65-140 tokens, 4 x 128 policy, 1 thread"
    rates = {side: tokens / each for side, each in seconds.items()}
    measured = {"": ("tokens/s", rates, f"{work}, optimizer step included, median of {rounds}")}
    if peak_is_measurable():
        note = (
            f"{work}, {SETTINGS.tokens_per_microbatch} padded tokens a pass; growth of resident memory over one "
            "step in a fresh process: gradients, activations and logits; weights and moments were there before"
        )
        peaks = {side: in_fresh_process(_peak_mb, side, case) for side in SIDES}
        measured[" memory"] = ("MB", peaks, note)
    return [
        Figure(
            f"learner step{what}, {decoding}, {vocabulary:,} ids",
            unit,
            values[side],
            values[theirs],
            yardstick,
            lower_is_better=unit == "MB",
            note=note,
        )
        for what, (unit, values, note) in measured.items()
        for side, decoding in OURS.items()
        for theirs, yardstick in YARDSTICKS.items()
    ]


def check_agreement(metrics: Mapping[Side, Mapping[str, float]]) -> None:
    """Raise RuntimeError if loss or gradient norm of the sides differ on the freely decoded batch."""
    ours = metrics["free"]
    for side in YARDSTICKS:
        require_equal("the loss", ours["loss"], metrics[side]["loss"], abs_tol=1e-5)
        require_equal("the gradient norm", ours["grad_norm"], metrics[side]["grad_norm"], rel_tol=1e-3)


def side_episodes(side: Side, vocabulary: int, count: int, turns: int = TURNS_EACH) -> Episodes:
    """Make ``count`` ragged episodes of ``turns`` turns, decoded under masks for side ``masked``, else freely."""
    episodes = ragged_episodes(count, vocabulary, masked=side == "masked")
    return tuple(replace(episode, turns=episode.turns[:turns]) for episode in episodes)


def make_side(side: Side, vocabulary: int) -> LearnerSide | TrlSide:
    """Make a learner or a TRL trainer over its own small policy; all have the same weights."""
    model = small_model(vocabulary)
    if side in OURS:
        return LearnerSide(model, SETTINGS)
    return TrlSide(model, completions_alone=side == "trl_completions")


def _peak_mb(side: Side, case: Case) -> float:
    torch.set_num_threads(1)
    made = make_side(side, case.vocabulary)
    made.prepared(
        side_episodes(side, case.vocabulary, WARM_UP_EPISODES)
    )()  # libraries and AdamW allocate what they keep
    made.model.zero_grad(set_to_none=True)
    return peak_growth_mb(made.prepared(side_episodes(side, case.vocabulary, case.episodes, case.turns)))


class TrlSide:
    """Runs the loss of a ``GRPOTrainer`` (``loss_type = "grpo"``) over micro-batches, then one AdamW step."""

    def __init__(self, model: nn.Module, *, completions_alone: bool) -> None:
        self.model = model.train()  # no dropout; TRL divides by the accumulated passes only when it trains
        self._completions_alone = completions_alone
        self._trainer = _trainer(model)
        self._optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=SETTINGS.learning_rate,
            betas=(0.9, SETTINGS.adam_beta2),
            weight_decay=SETTINGS.weight_decay,
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
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), SETTINGS.max_grad_norm)
            self._optimizer.step()
            return {"loss": loss, "grad_norm": float(norm)}

        return step


def trl_inputs(episodes: Episodes) -> list[dict[str, Tensor]]:
    """Make the inputs of TRL's loss, ``TRL_ROWS`` turns a pass."""
    turns = [turn for episode in episodes for turn in episode.turns]
    if len(turns) % TRL_ROWS:
        raise ValueError(f"{len(turns)} turns do not fill passes of {TRL_ROWS}")
    inputs = padded_turns(turns) | {"advantages": torch.tensor(turn_advantages(episodes))}
    return [
        {name: tensor[start : start + TRL_ROWS] for name, tensor in inputs.items()}
        for start in range(0, len(turns), TRL_ROWS)
    ]


def _trainer(model: nn.Module) -> Any:
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
            epsilon=SETTINGS.epsilon,
            epsilon_high=SETTINGS.epsilon_high,
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
