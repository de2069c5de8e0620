"""Cooperative navigation: three agents cover three landmarks without running into one another (``mpe2``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grpo_core.types import FloatArray, KeyValue
from services.environments.tensor_task import Action, Actions, TensorGame, TensorTask
from services.environments.tensor_tasks.control.gymnasium_task import missing

AGENTS = ("agent_0", "agent_1", "agent_2")
LONGEST = 25


class CooperativeNavigation(TensorTask):
    """``simple_spread_v3`` with numbered actions; every agent moves in every step."""

    name = "navigation"
    seats = AGENTS
    observation_size = 18
    actions = Actions(5)
    longest = LONGEST
    random_return = -26.5
    goal = -10.0

    def make(self) -> TensorGame:
        """Make an instance; raises TaskError without mpe2."""
        try:
            from mpe2 import simple_spread_v3
        except ImportError as error:
            raise missing(self.name, "control", error) from error
        return _Spread(simple_spread_v3.parallel_env(N=len(AGENTS), max_cycles=LONGEST))


class _Spread(TensorGame):
    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._observations: Mapping[str, Any] = {}

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """See ``TensorGame.reset``; there are no facts of a start."""
        self._observations, _ = self._environment.reset(seed=seed)
        return {}

    @property
    def to_act(self) -> tuple[str, ...]:
        """All agents until the last step."""
        return tuple(self._environment.agents)

    def observation(self, seat: str) -> FloatArray:
        """Its own speed and place, and the landmarks and other agents relative to it."""
        return np.array(self._observations[seat], np.float32)

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Move all agents: 0 stays, 1 to 4 push to one side."""
        self._observations, rewards, _, _, _ = self._environment.step(dict(chosen))
        return {seat: float(reward) for seat, reward in rewards.items()}

    @property
    def was_cut_off(self) -> bool:
        """Always: only the limit of steps ends an episode."""
        return not self._environment.agents

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()
