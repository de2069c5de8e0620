"""Synthetic episodes of a realistic shape, for benchmarks, load tests and dry runs of a buffer."""

from __future__ import annotations

import zlib

import numpy as np

from grpo_core.types import Episode, Turn

_VOCABULARY = 150  # token ids


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
) -> Episode:
    """Return the same episode for the same arguments; half of each completion is sampled among ``choices`` ids."""
    rng = np.random.default_rng(zlib.crc32(f"{block_id}/{member}".encode()))  # hash() differs between processes

    def turn(index: int) -> Turn:
        mask = rng.random(completion_tokens) < 0.5
        counts = rng.integers(1, 2 * choices, int(mask.sum()))
        phase = f"S{1901 + index // 2}M"
        return Turn(
            prompt_ids=rng.integers(0, _VOCABULARY, prompt_tokens, dtype=np.int32),
            completion_ids=rng.integers(0, _VOCABULARY, completion_tokens, dtype=np.int32),
            logprobs=np.where(mask, -rng.exponential(1.0, completion_tokens), 0).astype(np.float32),
            trained_mask=mask,
            admissible_ids=rng.integers(0, _VOCABULARY, int(counts.sum()), dtype=np.int32),
            admissible_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            policy_version=0,
            temperature=1.0,
            phase=phase,
            reward=float(rng.integers(-1, 2)),
            keys={"phase": phase, "own_centers": int(rng.integers(0, 18))},
        )

    played = tuple(turn(index) for index in range(turns))
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
