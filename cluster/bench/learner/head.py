"""The output head under a legal-order mask: admissible rows alone, beside logits over the whole vocabulary."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from cluster.bench.figure import Figure, interleaved_seconds
from cluster.bench.learner.step import VOCABULARY, plain_advantages, ragged_episodes
from cluster.bench.memory import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.batching.microbatches import MicroBatch, micro_batches, training_turns
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.hidden_states import hidden_at
from grpo_core.forward.logprobs import token_logprobs
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from grpo_core.types import Episode

VOCABULARIES = (1_000, 150_000)
MICROBATCH_TOKENS = 2048
WARM_UP_EPISODES = 2

Side = Literal["sparse", "full"]


def run(rounds: int) -> list[Figure]:
    """Forward and backward pass of one micro-batch through the small policy, one thread; ``rounds`` a side.

    Both sides share the decoder and its gradient; they differ in the head alone. Their losses and gradients are
    compared before the clock starts.

    Raises:
        RuntimeError: the two heads disagree.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [figure for vocabulary in VOCABULARIES for figure in _figures(vocabulary, rounds)]
    finally:
        torch.set_num_threads(threads)


def _figures(vocabulary: int, rounds: int) -> list[Figure]:
    model, (micro, *_) = small_policy(vocabulary), ragged_microbatches(vocabulary)
    check_agreement(model, micro)

    def timed(side: Side) -> None:
        backward(model, micro, side)

    sparse_s, full_s = interleaved_seconds(lambda: timed("sparse"), lambda: timed("full"), rounds)
    choices = len(micro.admissible_row_A) / len(micro.behaviour_N)
    work = (
        f"{len(micro.behaviour_N)} sampled of {micro.tokens} tokens, {choices:.0f} admissible ids each, "
        f"{len(micro.union_id_U)} distinct; forward and backward of the 4 x 128 policy, 1 thread"
    )
    yardstick = "logits over the vocabulary, same mask"
    figures = [
        Figure(
            f"output head, {vocabulary:,} ids", "s", sparse_s, full_s, yardstick, True, f"{work}; median of {rounds}"
        )
    ]
    if peak_is_measurable():
        sparse_mb, full_mb = (in_fresh_process(_peak_mb, vocabulary, side) for side in ("sparse", "full"))
        note = f"{work}; growth of resident memory over one pass in a fresh process, gradients included"
        figures.append(
            Figure(f"output head memory, {vocabulary:,} ids", "MB", sparse_mb, full_mb, yardstick, True, note)
        )
    return figures


def small_policy(vocabulary: int) -> nn.Module:
    """The 4 x 128 policy over a vocabulary of that size, with the learner's linear layers."""
    model: nn.Module = make_small_model(PolicySettings(), vocabulary, eos_id=1, bos_id=2, pad_id=0, seed=5)
    use_fast_layers(model)
    return model


def ragged_microbatches(vocabulary: int, episodes: int | None = None) -> list[MicroBatch]:
    """Ragged turns decoded under a mask, longest first, as the learner feeds them."""
    batch = spread(ragged_episodes(seed=11)[:episodes], vocabulary)
    turns = training_turns(batch, 0)
    weights = np.full(len(turns), 1 / sum(len(turn.position_S) for turn in turns))
    advantages = np.asarray(plain_advantages(batch), np.float32)
    return micro_batches(turns, advantages, weights, MICROBATCH_TOKENS)


def spread(episodes: Sequence[Episode], vocabulary: int) -> tuple[Episode, ...]:
    """The same turns with their ids spread over a larger vocabulary, as order words lie in a language model's own."""
    stride = vocabulary // VOCABULARY
    return tuple(
        dataclasses.replace(
            episode,
            turns=tuple(
                dataclasses.replace(
                    turn,
                    prompt_ids=turn.prompt_ids * stride,
                    completion_ids=turn.completion_ids * stride,
                    admissible_ids=turn.admissible_ids * stride,
                )
                for turn in episode.turns
            ),
        )
        for episode in episodes
    )


def backward(model: nn.Module, micro: MicroBatch, side: Side) -> float:
    """Gradients of every parameter through one of the two heads; returns the loss, an importance-weighted advantage."""
    model.zero_grad(set_to_none=True)
    chosen = token_logprobs(model, micro).chosen_N if side == "sparse" else full_vocabulary_logprobs(model, micro)
    loss = -(micro.weight_N * torch.exp(chosen - micro.behaviour_N) * micro.advantage_N).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def full_vocabulary_logprobs(model: nn.Module, micro: MicroBatch) -> Tensor:
    """Log-probabilities (N,) of the sampled tokens from logits (N, V) with all but the admissible ids masked.

    Entropies, which the sparse head gives too, are left out.
    """
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    logits: Tensor = head(hidden_at(model, micro.input_ids, micro.hidden_index_N)) / micro.temperature_N[:, None]
    refused = torch.ones_like(logits, dtype=torch.bool)
    ids = micro.union_id_U[micro.admissible_column_A]
    refused[micro.admissible_row_A, ids] = False
    logs = torch.log_softmax(logits.masked_fill(refused, -torch.inf), -1)
    return logs.gather(1, ids[micro.chosen_N][:, None]).squeeze(1)


def check_agreement(model: nn.Module, micro: MicroBatch) -> None:
    """Both heads must find the same loss and the same gradient of every parameter, to float32 rounding.

    Raises:
        RuntimeError: they do not.
    """
    losses: list[float] = []
    gradients: list[list[Tensor]] = []
    sides: tuple[Side, Side] = ("sparse", "full")
    for side in sides:
        losses.append(backward(model, micro, side))
        gradients.append([torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()])
    model.zero_grad(set_to_none=True)
    gaps = [float((ours - theirs).norm() / (theirs.norm() + 1e-12)) for ours, theirs in zip(*gradients, strict=True)]
    if abs(losses[0] - losses[1]) > 1e-6 or max(gaps) > 1e-4:
        raise RuntimeError(
            f"the two heads disagree (losses {losses[0]} and {losses[1]}, largest relative gap of a gradient "
            f"{max(gaps):.1e}); their costs cannot be compared"
        )


def _peak_mb(vocabulary: int, side: Side) -> float:
    torch.set_num_threads(1)
    model, (micro, *_) = small_policy(vocabulary), ragged_microbatches(vocabulary)
    backward(model, ragged_microbatches(vocabulary, WARM_UP_EPISODES)[-1], side)  # libraries take what they keep
    model.zero_grad(set_to_none=True)
    return peak_growth_mb(lambda: backward(model, micro, side))
