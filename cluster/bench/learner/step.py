"""Learner tokens a second beside the plain way: every turn padded into one batch, full logits everywhere."""

from __future__ import annotations

import math

import torch

from cluster.bench.figure import Figure, interleaved_seconds, one_thread
from cluster.bench.learner.batches import (
    EPISODES,
    GROUPING,
    LONGEST_TURN,
    TURNS_EACH,
    VOCABULARY,
    plain_step,
    ragged_episodes,
)
from cluster.bench.models import small_model
from cluster.bench.processes import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.learner import Learner
from grpo_core.settings import LearnerSettings, PolicySettings
from grpo_core.training.memory_estimate import ModelShape, estimate_memory
from grpo_core.types import Batch

SETTINGS = LearnerSettings(learning_rate=1e-5, lr_warmup_updates=0, minibatches=1)
ONE_BATCH = SETTINGS.model_copy(update={"tokens_per_microbatch": EPISODES * TURNS_EACH * LONGEST_TURN})


def run(rounds: int) -> list[Figure]:
    """Time one optimizer step on 200 ragged turns, ``rounds`` alternating timings a side, on one thread.

    Both sides count every prompt and completion token, padding excluded. Raises RuntimeError if their losses differ.
    """
    episodes = ragged_episodes()
    with one_thread():
        learner = Learner(small_model(VOCABULARY), SETTINGS, GROUPING, seed=3)
        plain = plain_step(small_model(VOCABULARY), VOCABULARY, ONE_BATCH, episodes)

        def ours() -> float:
            return learner.step(Batch(episodes, learner.version)).metrics["loss"]

        losses = ours(), plain()  # these first steps also warm up
        if not math.isclose(*losses, abs_tol=1e-4):
            raise RuntimeError(f"the two losses differ ({losses[0]} and {losses[1]}); their rates cannot be compared")
        seconds = interleaved_seconds({"ours": ours, "plain": plain}, rounds)
    tokens = sum(episode.tokens for episode in episodes)
    rates = {side: tokens / each for side, each in seconds.items()}
    note = f"{EPISODES * TURNS_EACH} turns of 65-140 tokens, 4 x 128 policy, 1 thread, median of {rounds}"
    speed = Figure("learner", "tokens/s", rates["ours"], rates["plain"], "one padded batch, full logits", note=note)
    return [speed, *_memory_figures()]


def _memory_figures() -> list[Figure]:
    """Compare the memory estimate, an upper bound whose tightness depends on the CPU, with what a step takes."""
    if not peak_is_measurable():
        return []
    estimated, measured = in_fresh_process(_estimated_and_measured_mb)
    return [
        Figure(
            "learner memory, estimated",
            "MB",
            estimated,
            measured,
            "growth of resident memory over one step",
            lower_is_better=True,
            note="gradients, activations and logits of one micro-batch; weights and moments were there before",
        )
    ]


def _estimated_and_measured_mb() -> tuple[float, float]:
    torch.set_num_threads(1)
    model = small_model(VOCABULARY)
    parameters = sum(value.numel() for value in model.parameters())
    shape = ModelShape.of(model.config)
    estimate = estimate_memory(shape, PolicySettings(), SETTINGS, parameters=parameters, trained=parameters)
    learner = Learner(model, SETTINGS, GROUPING, seed=3)
    episodes = ragged_episodes()
    learner.step(Batch(episodes[:4], 0))  # libraries and the optimizer allocate what they keep
    model.zero_grad(set_to_none=True)
    measured = peak_growth_mb(lambda: learner.step(Batch(episodes, 1)))
    return (estimate.gradients + estimate.step) / 1e6, measured
