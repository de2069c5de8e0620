"""Tasks as RLlib takes them: a gymnasium environment for one seat, and its own class for several.

Every step and every reset is counted in ``COUNTED``, which all environments of a process share: RLlib copies whatever
it makes environments from, so that nothing else would come back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from services.environments.tensor_task import Actions, TensorGame, TensorTask, legal_or_first

OBSERVATIONS, MASK = "observations", "action_mask"  # the names that RLlib's module for masks asks for
_SEED_LIMIT = 2**31


@dataclass(slots=True)
class Counted:
    """What a process has played."""

    steps: int = 0
    episodes: int = 0


COUNTED: defaultdict[str, Counted] = defaultdict(Counted)  # by run


def observation_space(task: TensorTask, *, masked: bool) -> gymnasium.Space[Any]:
    """What a seat sees: a vector, and beside it a mask where not all actions are legal."""
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
    if not masked:
        return seen
    mask = gymnasium.spaces.Box(0.0, 1.0, (task.actions.count,), np.float32)
    return gymnasium.spaces.Dict({MASK: mask, OBSERVATIONS: seen})


def action_space(actions: Actions) -> gymnasium.Space[Any]:
    """What a seat chooses; RLlib is told to cut numbers by these bounds, as other methods do, not to stretch them."""
    if actions.are_numbered:
        return gymnasium.spaces.Discrete(actions.count)
    return gymnasium.spaces.Box(np.asarray(actions.low, np.float32), np.asarray(actions.high, np.float32))


class OneSeat(gymnasium.Env[Any, Any]):
    """A task of one seat."""

    def __init__(self, task: TensorTask, run: str, seed: int) -> None:
        self._game = task.make()
        self._counted = COUNTED[run]
        (self._seat,) = task.seats
        self._seed, self._seeds = seed, np.random.default_rng(seed)
        self.observation_space = observation_space(task, masked=False)
        self.action_space = action_space(task.actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode from the environment's own seeds, which begin again from ``seed``.

        RLlib gives the environments of one run seeds that those of the next run have too, so both count.
        """
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._seeds = np.random.default_rng((self._seed, seed))
        self._game.reset(int(self._seeds.integers(_SEED_LIMIT)))
        self._counted.episodes += 1
        return self._game.observation(self._seat), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        reward = self._game.step({self._seat: action})[self._seat]
        self._counted.steps += 1
        over, cut_off = not self._game.to_act, self._game.was_cut_off
        return self._game.observation(self._seat), reward, over and not cut_off, cut_off, {}

    def close(self) -> None:
        """Close the instance."""
        self._game.close()


class SeveralSeats(MultiAgentEnv):  # type: ignore[misc]  # Ray has no types
    """A task of several seats, which act at once or in turns."""

    def __init__(self, task: TensorTask, run: str, seed: int) -> None:
        super().__init__()
        self._game: TensorGame = task.make()
        self._counted = COUNTED[run]
        self._seed, self._seeds = seed, np.random.default_rng(seed)
        self._masked, self._count = is_masked(task, self._game), task.actions.count
        self.possible_agents = list(task.seats)
        self.agents = list(task.seats)
        seen, chosen = observation_space(task, masked=self._masked), action_space(task.actions)
        self.observation_spaces = dict.fromkeys(task.seats, seen)
        self.action_spaces = dict.fromkeys(task.seats, chosen)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:  # noqa: ARG002
        """Begin an episode from the environment's own seeds, which begin again from ``seed``."""
        if seed is not None:
            self._seeds = np.random.default_rng((self._seed, seed))
        self._game.reset(int(self._seeds.integers(_SEED_LIMIT)))
        self.agents = list(self.possible_agents)
        self._counted.episodes += 1
        return self._seen(), {}

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Take the actions of the seats that act; all are paid. What is not legal counts as the first that is."""
        if self._masked:
            action_dict = {seat: legal_or_first(self._game, seat, int(each))[0] for seat, each in action_dict.items()}
        rewards = {**dict.fromkeys(action_dict, 0.0), **self._game.step(action_dict)}
        self._counted.steps += 1
        over, cut_off = not self._game.to_act, self._game.was_cut_off
        seen = {seat: self._view(seat) for seat in self.possible_agents} if over else self._seen()
        return seen, rewards, {"__all__": over and not cut_off}, {"__all__": cut_off}, {}

    def close(self) -> None:
        """Close the instance."""
        self._game.close()

    def _seen(self) -> dict[str, Any]:
        return {seat: self._view(seat) for seat in self._game.to_act}

    def _view(self, seat: str) -> Any:
        seen = self._game.observation(seat)
        if not self._masked:
            return seen
        mask = self._game.legal(seat) if seat in self._game.to_act else None
        legal = np.ones(self._count, np.float32) if mask is None else mask.astype(np.float32)
        return {OBSERVATIONS: seen, MASK: legal}


def is_masked(task: TensorTask, game: TensorGame) -> bool:
    """Whether a seat may not take every action at all times."""
    game.reset(0)
    return task.actions.are_numbered and game.legal(game.to_act[0]) is not None
