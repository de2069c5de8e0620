"""Small models and ragged made-up episodes for the tests of grpo_core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from grpo_core.advantages.grouping import Sample, groups_of, levels_of
from grpo_core.batching.microbatches import MicroBatch, micro_batches, training_turns
from grpo_core.gradients.pcgrad_cagrad import cagrad_weights, combined, gram_matrix, pcgrad_weights
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import make_small_model, read_payload
from grpo_core.settings import GroupingSettings, PolicySettings
from grpo_core.types import Episode, Group, Turn

VOCABULARY = 24
ROLES = ("AUSTRIA", "FRANCE", "TURKEY")


def tiny_model(architecture: str = "qwen3", seed: int = 0) -> PreTrainedModel:
    """Two blocks, and an output layer with some spread, so that probabilities differ."""
    if architecture == "qwen2":
        torch.manual_seed(seed)
        config = Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
        return Qwen2ForCausalLM(config).eval()
    settings = PolicySettings(
        architecture=architecture, hidden_size=64, layers=2, head_dim=32, intermediate_size=48, context_length=128
    )
    model = make_small_model(settings, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=seed)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model


def ragged_turn(
    rng: np.random.Generator, *, free: bool = False, thought: int = 0, temperature: float = 1.0, **facts: object
) -> Turn:
    """A turn of uneven length whose behaviour log-probabilities differ a little from every model's.

    Its first ``thought`` sampled tokens come from the whole vocabulary.
    """
    completion = rng.integers(3, VOCABULARY, int(rng.integers(1, 12)), dtype=np.int32)
    mask = rng.random(len(completion)) < 0.5
    mask[int(rng.integers(len(mask)))] = True
    sets = [
        np.unique(np.append(rng.integers(3, VOCABULARY, int(rng.integers(1, 6)), dtype=np.int32), target))
        for target in completion[mask]
    ]
    logprobs = np.zeros(len(completion), np.float32)
    sets[:thought] = [np.zeros(0, np.int32)] * min(thought, len(sets))
    size = [VOCABULARY if free or not len(ids) else len(ids) for ids in sets]
    logprobs[mask] = -np.log(size) + rng.normal(0, 0.1, len(sets))
    return Turn(
        **{
            "prompt_ids": rng.integers(3, VOCABULARY, int(rng.integers(2, 20)), dtype=np.int32),
            "completion_ids": completion,
            "logprobs": np.minimum(logprobs, 0).astype(np.float32),
            "trained_mask": mask,
            "admissible_ids": np.zeros(0, np.int32) if free else np.concatenate(sets).astype(np.int32),
            "admissible_offsets": np.zeros(0, np.int32)
            if free
            else np.cumsum([0, *(len(ids) for ids in sets)]).astype(np.int32),
            "policy_version": 0,
            "temperature": temperature,
            "phase": "S1901M",
            "reward": float(np.float32(rng.normal())),
            "keys": {"phase": "S1901M", "segment": "opening"},
            **facts,
        }
    )


def pcgrad(gradients: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """PCGrad's mean direction, shape (P,)."""
    return combined(pcgrad_weights(gram_matrix(gradients), generator), gradients)


def cagrad(gradients: torch.Tensor, c: float) -> torch.Tensor:
    """CAGrad's direction, shape (P,)."""
    return combined(cagrad_weights(gram_matrix(gradients), c), gradients)


def load_payload(model: PreTrainedModel, payload: bytes | memoryview) -> None:
    """Copy ``weights_payload`` bytes into the model; a payload that does not fit changes nothing."""
    own = named_tensors(model)
    new = read_payload(payload, own)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(new[name])


def forced_turn(rng: np.random.Generator) -> Turn:
    """A turn without any choice."""
    turn = ragged_turn(rng)
    length = len(turn.completion_ids)
    return Turn(
        prompt_ids=turn.prompt_ids,
        completion_ids=turn.completion_ids,
        logprobs=np.zeros(length, np.float32),
        trained_mask=np.zeros(length, bool),
        admissible_ids=np.zeros(0, np.int32),
        admissible_offsets=np.zeros(1, np.int32),
        policy_version=0,
        temperature=1.0,
        phase="W1901A",
        reward=0.5,
        keys={"phase": "W1901A", "segment": "opening"},
    )


def episode_of(turns: tuple[Turn, ...], *, role: str = "FRANCE", name: str = "block/0", reward: float = 0.0) -> Episode:
    """An episode around these turns."""
    return Episode(
        episode_id=name,
        task="diplomacy",
        role=role,
        block_id=name.split("/")[0],
        block_size=4,
        keys={"country": role, "lineup": "l1"},
        turns=turns,
        reward=reward,
        reward_parts={"center_change": reward},
        outcome={"centers": 3.0, "solo": 0.0, "top": 0.0, "survived": 1.0},
        seed=0,
    )


def ragged_episodes(seed: int, count: int = 12, **facts: object) -> tuple[Episode, ...]:
    """Episodes of 1-4 turns over three countries, some turns without a choice."""
    rng = np.random.default_rng(seed)
    out = []
    for index in range(count):
        turns = [ragged_turn(rng, **facts) for _ in range(int(rng.integers(1, 5)))]
        if index % 4 == 0:
            turns.insert(0, forced_turn(rng))
        reward = float(np.float32(rng.normal()))
        out.append(episode_of(tuple(turns), role=ROLES[index % 3], name=f"b{index % 3}/{index}", reward=reward))
    return tuple(out)


def prompt_groups(seed: int, prompts: int = 5, answers: int = 6, **facts: object) -> tuple[Episode, ...]:
    """Episodes of one turn, several to each prompt, in random order; the first prompt is a single token."""
    rng = np.random.default_rng(seed)
    out = []
    for prompt in range(prompts):
        length = 1 if prompt == 0 else int(rng.integers(10, 40))
        prompt_ids = rng.integers(3, VOCABULARY, length, dtype=np.int32)
        for answer in range(answers):
            turn = replace(ragged_turn(rng, **facts), prompt_ids=prompt_ids)
            out.append(episode_of((turn,), role=ROLES[prompt % 3], name=f"b{prompt}/{answer}", reward=turn.reward))
    return tuple(out[index] for index in rng.permutation(len(out)))


def micro_batches_of(episodes: tuple[Episode, ...], budget: int = 256) -> list[MicroBatch]:
    """Micro-batches of all turns, with advantages and weights of 1."""
    turns = training_turns(episodes, 0)
    return micro_batches(turns, np.ones(len(turns), np.float32), np.ones(len(turns)), budget)


def make_groups(samples: Sequence[Sample], grouping: GroupingSettings) -> tuple[Group, ...]:
    """Groups of the declared keys."""
    return groups_of(samples, levels_of(samples, grouping), grouping.min_group_size)
