"""The output head under a legal-order mask: admissible rows alone, beside logits over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cluster.bench.figure import Figure, interleaved_seconds, one_thread
from cluster.bench.learner.batches import EPISODES, padded_batches, ragged_episodes, refused_ids
from cluster.bench.models import small_model
from cluster.bench.processes import in_fresh_process, peak_growth_mb, peak_is_measurable
from grpo_core.batching.microbatches import MicroBatch
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.hidden_states import hidden_at
from grpo_core.forward.logprobs import token_logprobs

VOCABULARIES = (1_000, 150_000)
MICROBATCH_TOKENS = 2048
WARM_UP_EPISODES = 2

Side = Literal["sparse", "full"]
SIDES: tuple[Side, Side] = ("sparse", "full")


def run(rounds: int) -> list[Figure]:
    """Time a forward and backward pass of one micro-batch through the small policy, one thread, ``rounds`` a side.

    Only the head differs. Before the timing, RuntimeError is raised if the two losses or gradients differ.
    """
    with one_thread():
        return [figure for vocabulary in VOCABULARIES for figure in _figures(vocabulary, rounds)]


def _figures(vocabulary: int, rounds: int) -> list[Figure]:
    model, (micro, *_) = fast_model(vocabulary), masked_batches(vocabulary)
    check_agreement(model, micro)
    seconds = interleaved_seconds({side: partial(backward, model, micro, side) for side in SIDES}, rounds)
    choices = len(micro.admissible_row_A) / len(micro.behaviour_N)
    work = (
        f"{len(micro.behaviour_N)} sampled of {micro.tokens} tokens, {choices:.0f} admissible ids each, "
        f"{len(micro.union_id_U)} distinct; forward and backward of the 4 x 128 policy, 1 thread"
    )
    measured: dict[str, tuple[str, Mapping[Side, float], str]] = {"": ("s", seconds, f"median of {rounds}")}
    if peak_is_measurable():
        peaks = {side: in_fresh_process(_peak_mb, vocabulary, side) for side in SIDES}
        note = "growth of resident memory over one pass in a fresh process, gradients included"
        measured[" memory"] = ("MB", peaks, note)
    return [
        Figure(
            f"output head{what}, {vocabulary:,} ids",
            unit,
            values["sparse"],
            values["full"],
            "logits over the vocabulary, same mask",
            lower_is_better=True,
            note=f"{work}; {note}",
        )
        for what, (unit, values, note) in measured.items()
    ]


def fast_model(vocabulary: int) -> nn.Module:
    """The small policy with the learner's linear layers."""
    model: nn.Module = small_model(vocabulary)
    use_fast_layers(model)
    return model


def masked_batches(vocabulary: int, episodes: int = EPISODES) -> list[MicroBatch]:
    """Make passes of ragged turns decoded under a mask, longest first, as the learner has them."""
    return [micro for micro, _ in padded_batches(ragged_episodes(episodes, vocabulary), MICROBATCH_TOKENS)]


def backward(model: nn.Module, micro: MicroBatch, side: Side) -> float:
    """Compute every parameter's gradient through one of the heads; returns the loss."""
    model.zero_grad(set_to_none=True)
    chosen = token_logprobs(model, micro)[0] if side == "sparse" else full_vocabulary_logprobs(model, micro)
    loss = -(micro.weight_N * torch.exp(chosen - micro.behaviour_N) * micro.advantage_N).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def full_vocabulary_logprobs(model: nn.Module, micro: MicroBatch) -> Tensor:
    """Log-probabilities (N,) of the sampled tokens from logits (N, V) with all but the admissible ids masked."""
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    logits: Tensor = head(hidden_at(model, micro.input_ids, micro.hidden_index_N)) / micro.temperature_N[:, None]
    logs = torch.log_softmax(logits.masked_fill(refused_ids(micro, logits.shape[1]), -torch.inf), -1)
    return logs.gather(1, micro.target_N[:, None]).squeeze(1)


def check_agreement(model: nn.Module, micro: MicroBatch) -> None:
    """Raise RuntimeError if the two heads' losses or gradients differ by more than float32 rounding."""
    losses: list[float] = []
    gradients: list[list[Tensor]] = []
    for side in SIDES:
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
    model, (micro, *_) = fast_model(vocabulary), masked_batches(vocabulary)
    backward(model, masked_batches(vocabulary, WARM_UP_EPISODES)[-1], side)  # libraries allocate what they keep
    model.zero_grad(set_to_none=True)
    return peak_growth_mb(lambda: backward(model, micro, side))
