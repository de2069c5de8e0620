"""Small episodes and blocks for tests of replay buffers."""

from __future__ import annotations

from itertools import count

from grpo_core.types import Episode
from services.replay.buffer import Delivery
from services.replay.synthetic_episodes import synthetic_episode

runs = (f"run-{number}" for number in count())


def episode(block: str, member: int, role: str = "FRANCE", size: int = 2, turns: int = 1) -> Episode:
    return synthetic_episode(block, member, role=role, block_size=size, turns=turns, completion_tokens=10)


def block(name: str, role: str = "FRANCE", size: int = 2) -> list[Episode]:
    return [episode(name, member, role, size) for member in range(size)]


def ids(delivery: Delivery) -> list[str]:
    return [episode.episode_id for episode in delivery.episodes]
