"""Synthetic batches for the learner's benchmarks, the learner's step on them, and the plain one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import MicroBatch, TrainingTurn, micro_batches, training_turns
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, Episode, FloatArray, Turn

VOCABULARY = 400
EPISODES = 20
TURNS_EACH = 10
PROMPT, COMPLETION = (60, 96), (5, 46)  # bounds of a turn's tokens; the upper ones are excluded
LONGEST_TURN = 140  # tokens of prompt and completion
ROLES = ("ENGLAND", "FRANCE")
SEED = 11
GROUPING = GroupingSettings(min_group_size=2)  # the smallest batch has two episodes of each role

Episodes = tuple[Episode, ...]
Step = Callable[[], Mapping[str, float]]  # one update; returns its metrics, ``loss`` among them


def ragged_episodes(
    count: int = EPISODES,
    vocabulary: int = VOCABULARY,
    *,
    masked: bool = True,
    prompt: tuple[int, int] = PROMPT,
    completion: tuple[int, int] = COMPLETION,
) -> Episodes:
    """Make episodes of ten turns, with two fifths of their completions' tokens sampled.

    ``vocabulary`` is a multiple of ``VOCABULARY``; the ids are spread over it, as order words are in a language model.
    With ``masked``, ids are sampled among a few admissible ones; otherwise freely, each about equally likely. The
    tokens are the same, masked or not, and a smaller ``count`` gives the first of these episodes.
    """
    rng = np.random.default_rng(SEED)
    return tuple(
        Episode(
            episode_id=f"bench/{index}",
            task="bench",
            role=ROLES[index % len(ROLES)],
            block_id="bench",
            block_size=EPISODES,
            keys={},
            turns=tuple(_ragged_turn(rng, vocabulary, masked, prompt, completion) for _ in range(TURNS_EACH)),
            reward=0.0,
            reward_parts={},
            outcome={},
            seed=SEED,
        )
        for index in range(count)
    )


def _ragged_turn(
    rng: np.random.Generator, vocabulary: int, masked: bool, prompts: tuple[int, int], completions: tuple[int, int]
) -> Turn:
    completion = rng.integers(3, VOCABULARY, int(rng.integers(*completions)), dtype=np.int32)
    mask = rng.random(len(completion)) < 0.4
    mask[int(rng.integers(len(mask)))] = True
    admissible = [
        np.unique(np.append(rng.integers(3, VOCABULARY, int(rng.integers(1, 30)), dtype=np.int32), target))
        for target in completion[mask]
    ]
    prompt = rng.integers(3, VOCABULARY, int(rng.integers(*prompts)), dtype=np.int32)
    stride = vocabulary // VOCABULARY
    ids, offsets = np.zeros(0, np.int32), np.zeros(0, np.int32)
    if masked:
        ids = np.concatenate(admissible).astype(np.int32) * stride
        offsets = np.cumsum([0, *map(len, admissible)]).astype(np.int32)
    logprobs = np.zeros(len(completion), np.float32)  # those of a fresh policy: about uniform
    logprobs[mask] = [-math.log(len(each) if masked else vocabulary) for each in admissible]
    return Turn(
        prompt_ids=prompt * stride,
        completion_ids=completion * stride,
        logprobs=logprobs,
        trained_mask=mask,
        admissible_ids=ids,
        admissible_offsets=offsets,
        policy_version=0,
        temperature=1.0,
        phase="S1901M",
        reward=float(rng.normal()),
        keys={"phase": "S1901M", "segment": "opening"},
    )


def turn_advantages(episodes: Episodes) -> FloatArray:
    """The advantages (turns,) that the learner computes with default settings."""
    return compute_advantages(episodes, LearnerSettings(), GROUPING, {}).advantages


def padded_batches(
    episodes: Episodes, budget: int, device: torch.device | str = "cpu"
) -> list[tuple[MicroBatch, list[TrainingTurn]]]:
    """Make passes of at most ``budget`` padded tokens with their turns, longest first; every turn weighs the same."""
    turns = training_turns(episodes, 0)
    weights = np.array([1 / (len(turn.position_S) * len(turns)) for turn in turns])
    batches = micro_batches(turns, turn_advantages(episodes), weights, budget, device)
    return [(micro, [turns[index] for index in micro.turns]) for micro in batches]


def refused_ids(micro: MicroBatch, vocabulary: int) -> Tensor:
    """(N, V) which ids the mask of each sampled token refuses; none of a token from the whole vocabulary."""
    refused = torch.zeros((len(micro.target_N), vocabulary), dtype=torch.bool, device=micro.input_ids.device)
    refused[micro.masked_M] = True
    refused[micro.masked_M[micro.admissible_row_A], micro.union_id_U[micro.admissible_column_A]] = False
    return refused


class LearnerSide:
    """The learner over a model, from episodes to new weights."""

    def __init__(self, model: nn.Module, settings: LearnerSettings) -> None:
        self.model = model
        self._learner = Learner(model, settings, GROUPING, seed=3)

    def prepared(self, episodes: Episodes) -> Step:
        """Make a step on these episodes; grouping, advantages and tensors are part of it."""
        return lambda: self._learner.step(Batch(episodes, self._learner.version)).metrics


def plain_step(model: nn.Module, vocabulary: int, settings: LearnerSettings, episodes: Episodes) -> Step:
    """Make the learner's update the plain way: padded passes, logits at every position."""
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=settings.learning_rate,
        betas=(0.9, settings.adam_beta2),
        weight_decay=0.0,
        fused=device.type == "cuda",
    )
    if settings.gradient_checkpointing:
        inner: Any = model.train()  # transformers' switch works in this mode only; these models have no dropout
        inner.gradient_checkpointing_enable({"use_reentrant": False})
    passes: list[tuple[MicroBatch, Tensor, Tensor | None]] = []
    for micro, turns in padded_batches(episodes, settings.tokens_per_microbatch, device):
        lengths = torch.tensor([len(turn.input_ids) for turn in turns], device=device)
        attention = torch.arange(micro.input_ids.shape[1], device=device) < lengths[:, None]
        refused = None
        if len(micro.masked_M):
            refused = torch.zeros((micro.input_ids.numel(), vocabulary), dtype=torch.bool, device=device)
            refused[micro.hidden_index_N] = refused_ids(micro, vocabulary)
        passes.append((micro, attention.long(), refused))

    def step() -> Mapping[str, float]:
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for micro, attention, refused in passes:
            logits: Tensor = model(input_ids=micro.input_ids, attention_mask=attention, use_cache=False).logits
            logits = logits.float().flatten(0, 1)
            if refused is not None:
                logits = logits.masked_fill(refused, -torch.inf)
            logs = torch.log_softmax(logits, -1)
            ratio = torch.exp(logs[micro.hidden_index_N, micro.target_N] - micro.behaviour_N)
            clipped = ratio.clamp(1 - settings.epsilon, 1 + settings.epsilon_high)
            surrogate = torch.minimum(ratio * micro.advantage_N, clipped * micro.advantage_N)
            loss = -(micro.weight_N * surrogate).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            del logits, logs, loss
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        return {"loss": total}

    return step


def require_equal(what: str, ours: float, theirs: float, *, abs_tol: float = 0.0, rel_tol: float = 0.0) -> None:
    """Raise RuntimeError if the two sides of a comparison do not compute the same."""
    if not math.isclose(ours, theirs, abs_tol=abs_tol, rel_tol=rel_tol):
        raise RuntimeError(f"{what} is {ours} here and {theirs} in the yardstick; their rates cannot be compared")
