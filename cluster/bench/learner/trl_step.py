"""The learner's step beside the loss step of TRL's ``GRPOTrainer``: tokens a second and peak memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from cluster.bench.figure import Figure, interleaved_seconds, one_thread
from cluster.bench.learner.batches import GROUPING, LONGEST_TURN, TURNS_EACH, VOCABULARY, ragged_episodes
from cluster.bench.learner.trl_trainer import TRL_ROWS, Outcome, Step, TrlSide, require_trl
from cluster.bench.models import small_model
from cluster.bench.processes import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.learner import Learner
from grpo_core.settings import LearnerSettings
from grpo_core.types import Batch, Episode


@dataclass(frozen=True, slots=True)
class Case:
    """The size of one comparison."""

    vocabulary: int
    episodes: int
    turns: int  # of each episode
    most_rounds: int


# With many ids TRL takes 20 s for two passes: fewer rounds keep the benchmark under five minutes.
CASES = (Case(VOCABULARY, 20, 10, most_rounds=10), Case(150_000, 4, 5, most_rounds=2))
WARM_UP_EPISODES = 4  # the smallest batch
SETTINGS = LearnerSettings(
    learning_rate=1e-5, lr_warmup_updates=0, minibatches=1, tokens_per_microbatch=TRL_ROWS * LONGEST_TURN
)

Side = Literal["free", "masked", "trl", "trl_completions"]
SIDES: tuple[Side, ...] = ("free", "masked", "trl", "trl_completions")
OURS: dict[Side, str] = {"free": "free text", "masked": "legal-order mask"}
YARDSTICKS: dict[Side, str] = {"trl": "TRL", "trl_completions": "TRL, scoring completions alone"}


def run(rounds: int) -> list[Figure]:
    """Time one optimizer step on the same ragged turns, small policy, one thread, ``rounds`` alternating a side.

    Freely decoded turns are the same problem for both, so losses and gradient norms are compared first. Under
    legal-order masks the learner has less to do; TRL has no masks. TRL is measured as installed, which on a CPU scores
    prompts too, and made to score completions alone, as on a GPU. A pass of either side holds at most ten turns of the
    longest length, so that memory can be compared. Both count every prompt and completion token, padding excluded.

    Raises MissingRequirementError without TRL, RuntimeError if the two sides' losses or gradient norms differ.
    """
    require_trl()
    with one_thread():
        return [figure for case in CASES for figure in _figures(case, min(rounds, case.most_rounds))]


def _figures(case: Case, rounds: int) -> list[Figure]:
    vocabulary = case.vocabulary
    episodes = {side: bench_episodes(side, vocabulary, case.episodes, case.turns) for side in SIDES}
    steps = {side: make_side(side, vocabulary).prepared(episodes[side]) for side in SIDES}
    check_agreement({side: steps[side]() for side in SIDES})  # these first steps warm up, too
    seconds = interleaved_seconds(steps, rounds)
    tokens = sum(episode.tokens for episode in episodes["free"])
    work = f"{sum(len(episode.turns) for episode in episodes['free'])} turns of 65-140 tokens, 4 x 128 policy, 1 thread"
    rates = {side: tokens / each for side, each in seconds.items()}
    measured = {"": ("tokens/s", rates, f"{work}, optimizer step included, median of {rounds}")}
    if peak_is_measurable():
        note = (
            f"{work}, {SETTINGS.tokens_per_microbatch} padded tokens a pass; growth of resident memory over one "
            "step in a fresh process: gradients, activations and logits; weights and moments were there before"
        )
        measured[" memory"] = ("MB", {side: in_fresh_process(_peak_mb, side, case) for side in SIDES}, note)
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


def check_agreement(outcomes: Mapping[Side, Outcome]) -> None:
    """Raise RuntimeError if loss or gradient norm of the sides differ on the freely decoded batch."""
    ours = outcomes["free"]
    for side in YARDSTICKS:
        theirs = outcomes[side]
        if not (
            math.isclose(ours.loss, theirs.loss, abs_tol=1e-5)
            and math.isclose(ours.grad_norm, theirs.grad_norm, rel_tol=1e-3)
        ):
            raise RuntimeError(f"the learner found {ours}, TRL {theirs}; their rates cannot be compared")


def bench_episodes(side: Side, vocabulary: int, count: int, turns: int = TURNS_EACH) -> tuple[Episode, ...]:
    """Make ``count`` ragged episodes of ``turns`` turns, decoded under masks for side ``masked``, else freely."""
    episodes = ragged_episodes(count, vocabulary, masked=side == "masked")
    return tuple(replace(episode, turns=episode.turns[:turns]) for episode in episodes)


def make_side(side: Side, vocabulary: int) -> LearnerSide | TrlSide:
    """Make a learner or a TRL trainer over its own small policy; all have the same weights."""
    model = small_model(vocabulary)
    if side in OURS:
        return LearnerSide(model)
    return TrlSide(model, SETTINGS, completions_alone=side == "trl_completions")


class LearnerSide:
    """The learner, from episodes to new weights."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._learner = Learner(model, SETTINGS, GROUPING, seed=3)

    def prepared(self, episodes: tuple[Episode, ...]) -> Step:
        """Make a step on these episodes; grouping, advantages and tensors are part of it."""

        def step() -> Outcome:
            metrics = self._learner.step(Batch(episodes, self._learner.version)).metrics
            return Outcome(metrics["loss"], metrics["grad_norm"])

        return step


def _peak_mb(side: Side, case: Case) -> float:
    torch.set_num_threads(1)
    ours = make_side(side, case.vocabulary)
    warm_up = bench_episodes(side, case.vocabulary, WARM_UP_EPISODES, case.turns)
    ours.prepared(warm_up)()  # libraries and the optimizer allocate what they keep
    ours.model.zero_grad(set_to_none=True)
    return peak_growth_mb(ours.prepared(bench_episodes(side, case.vocabulary, case.episodes, case.turns)))
