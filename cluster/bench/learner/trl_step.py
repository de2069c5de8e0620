"""The learner's step beside the loss step of TRL's ``GRPOTrainer``: tokens a second and peak memory."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Literal

import torch

from cluster.bench.figure import Figure, MissingRequirementError, interleaved_seconds, one_thread
from cluster.bench.learner.batches import (
    LONGEST_TURN,
    TURNS_EACH,
    VOCABULARY,
    Episodes,
    LearnerSide,
    ragged_episodes,
    require_equal,
)
from cluster.bench.learner.trl_trainer import TRL_ROWS, TrlSide
from cluster.bench.models import small_model
from cluster.bench.processes import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.settings import LearnerSettings

CASES = {VOCABULARY: 20, 150_000: 4}  # episodes by vocabulary; with many ids TRL takes 10 s for a pass
WARM_UP_EPISODES = 4  # the smallest batch
SETTINGS = LearnerSettings(
    learning_rate=1e-5, lr_warmup_updates=0, minibatches=1, tokens_per_microbatch=TRL_ROWS * LONGEST_TURN
)

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
        return [figure for vocabulary, count in CASES.items() for figure in _figures(vocabulary, count, rounds)]


def _figures(vocabulary: int, count: int, rounds: int) -> list[Figure]:
    steps = {side: make_side(side, vocabulary).prepared(side_episodes(side, vocabulary, count)) for side in SIDES}
    check_agreement({side: steps[side]() for side in SIDES})  # these first steps warm up, too
    seconds = interleaved_seconds(steps, rounds)
    tokens = sum(episode.tokens for episode in side_episodes("free", vocabulary, count))
    work = f"{count * TURNS_EACH} turns of 65-140 tokens, 4 x 128 policy, 1 thread"
    rates = {side: tokens / each for side, each in seconds.items()}
    measured = {"": ("tokens/s", rates, f"{work}, optimizer step included, median of {rounds}")}
    if peak_is_measurable():
        note = (
            f"{work}, {SETTINGS.tokens_per_microbatch} padded tokens a pass; growth of resident memory over one "
            "step in a fresh process: gradients, activations and logits; weights and moments were there before"
        )
        peaks = {side: in_fresh_process(_peak_mb, side, vocabulary, count) for side in SIDES}
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


def side_episodes(side: Side, vocabulary: int, count: int) -> Episodes:
    """Make ``count`` ragged episodes, decoded under masks for side ``masked``, else freely."""
    return ragged_episodes(count, vocabulary, masked=side == "masked")


def make_side(side: Side, vocabulary: int) -> LearnerSide | TrlSide:
    """Make a learner or a TRL trainer over its own small policy; all have the same weights."""
    model = small_model(vocabulary)
    if side in OURS:
        return LearnerSide(model, SETTINGS)
    return TrlSide(model, SETTINGS, completions_alone=side == "trl_completions")


def _peak_mb(side: Side, vocabulary: int, count: int) -> float:
    torch.set_num_threads(1)
    made = make_side(side, vocabulary)
    made.prepared(side_episodes(side, vocabulary, WARM_UP_EPISODES))()  # libraries and AdamW allocate what they keep
    made.model.zero_grad(set_to_none=True)
    return peak_growth_mb(made.prepared(side_episodes(side, vocabulary, count)))
