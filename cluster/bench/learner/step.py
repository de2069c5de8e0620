"""Learner tokens a second beside the plain way: every turn padded into one batch, full logits everywhere."""

from __future__ import annotations

from cluster.bench.figure import Figure, interleaved_seconds, one_thread
from cluster.bench.learner.batches import (
    EPISODES,
    LONGEST_TURN,
    TURNS_EACH,
    VOCABULARY,
    LearnerSide,
    plain_step,
    ragged_episodes,
    require_equal,
)
from cluster.bench.models import small_model
from grpo_core.settings import LearnerSettings

SETTINGS = LearnerSettings(learning_rate=1e-5, lr_warmup_updates=0, minibatches=1)
ONE_BATCH = SETTINGS.model_copy(update={"tokens_per_microbatch": EPISODES * TURNS_EACH * LONGEST_TURN})


def run(rounds: int) -> list[Figure]:
    """Time one optimizer step on 200 ragged turns, ``rounds`` alternating timings a side, on one thread.

    Both sides count every prompt and completion token, padding excluded. Raises RuntimeError if their losses differ.
    """
    episodes = ragged_episodes()
    with one_thread():
        ours = LearnerSide(small_model(VOCABULARY), SETTINGS).prepared(episodes)
        plain = plain_step(small_model(VOCABULARY), VOCABULARY, ONE_BATCH, episodes)
        require_equal("the loss", ours()["loss"], plain()["loss"], abs_tol=1e-4)  # these first steps also warm up
        seconds = interleaved_seconds({"ours": ours, "plain": plain}, rounds)
    tokens = sum(episode.tokens for episode in episodes)
    rates = {side: tokens / each for side, each in seconds.items()}
    note = f"{EPISODES * TURNS_EACH} turns of 65-140 tokens, 4 x 128 policy, 1 thread, median of {rounds}"
    return [Figure("learner", "tokens/s", rates["ours"], rates["plain"], "one padded batch, full logits", note=note)]
