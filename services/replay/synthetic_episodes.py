"""Made-up episodes of a realistic shape, for benchmarks, load tests and dry runs of a buffer."""

from __future__ import annotations

import zlib

import numpy as np

from grpo_core.types import Episode, Turn


def synthetic_episode(
    block_id: str,
    member: int,
    *,
    role: str = "FRANCE",
    block_size: int = 4,
    turns: int = 20,
    prompt_tokens: int = 100,
    completion_tokens: int = 100,
    choices: int = 8,
    vocabulary: int = 150,
    policy_version: int = 0,
) -> Episode:
    """An episode as constrained play gives it: half of the completion is sampled among ``choices`` ids.

    The same arguments give the same episode.
    """
    rng = np.random.default_rng(zlib.crc32(f"{block_id}/{member}".encode()))  # hash() differs between processes
    played = tuple(
        _turn(
            rng,
            index,
            prompt=prompt_tokens,
            completion=completion_tokens,
            choices=choices,
            vocabulary=vocabulary,
            version=policy_version,
        )
        for index in range(turns)
    )
    centers = float(rng.integers(0, 18))
    return Episode(
        episode_id=f"{block_id}/{member}",
        task="diplomacy",
        role=role,
        block_id=block_id,
        block_size=block_size,
        keys={"country": role, "lineup": block_id},
        turns=played,
        reward=centers - 3,
        reward_parts={"center_change": centers - 3, "survival": float(centers > 0)},
        outcome={"centers": centers, "solo": 0.0, "final_year": 1905.0, "phases": float(turns)},
        seed=int(rng.integers(0, 2**31)),
    )


def _turn(
    rng: np.random.Generator,
    index: int,
    *,
    prompt: int,
    completion: int,
    choices: int,
    vocabulary: int,
    version: int,
) -> Turn:
    mask = rng.random(completion) < 0.5
    sampled = int(mask.sum())
    counts = rng.integers(1, 2 * choices, sampled)
    return Turn(
        prompt_ids=rng.integers(0, vocabulary, prompt, dtype=np.int32),
        completion_ids=rng.integers(0, vocabulary, completion, dtype=np.int32),
        logprobs=np.where(mask, -rng.exponential(1.0, completion), 0).astype(np.float32),
        trained_mask=mask,
        admissible_ids=rng.integers(0, vocabulary, int(counts.sum()), dtype=np.int32),
        admissible_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        policy_version=version,
        temperature=1.0,
        phase=f"S{1901 + index // 2}M",
        reward=float(rng.integers(-1, 2)),
        keys={"phase": f"S{1901 + index // 2}M", "own_centers": int(rng.integers(0, 18))},
    )
