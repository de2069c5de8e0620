"""A family of cart poles in one task: five carts whose rewards lie four orders of magnitude apart.

A policy sees which cart it drives, and one policy is to drive them all. Each step brings a cart's own reward, from 0.01
to 100, so that a mean and a deviation over the whole batch are those of the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_core.types import FloatArray, KeyValue
from services.environments.tensor_task import Action, Actions, TensorGame, TensorTask
from services.environments.tensor_tasks.control.gymnasium_task import SEAT, missing

LONGEST = 200


@dataclass(frozen=True, slots=True)
class Cart:
    """One variant; gymnasium's cart pole has a pole of 0.5, a mass of 0.1 and a force of 10."""

    name: str
    reward: float  # for each step
    half_length: float  # of the pole, m
    pole_mass: float  # kg
    force: float  # N


CARTS = (
    Cart("tiny", 0.01, 0.5, 0.1, 10.0),
    Cart("short", 0.1, 0.3, 0.1, 10.0),
    Cart("usual", 1.0, 0.5, 0.1, 10.0),
    Cart("heavy", 10.0, 0.7, 0.3, 15.0),
    Cart("long", 100.0, 1.0, 0.1, 15.0),
)


class CartPoleFamily(TensorTask):
    """Each episode is one of the carts, in turn by its seed; the fact ``variant`` names it."""

    name = "cartpole_family"
    seats = (SEAT,)
    observation_size = 4 + len(CARTS)  # the pole's state, and which cart it is
    actions = Actions(2)
    longest = LONGEST
    measured_episodes = 100  # 20 of each cart
    random_return = 22.5  # steps
    goal = float(LONGEST)

    def make(self) -> TensorGame:
        """Make an instance; raises TaskError without gymnasium."""
        try:
            from gymnasium.envs.classic_control.cartpole import CartPoleEnv
        except ImportError as error:
            raise missing(self.name, "control", error) from error
        return _Carts([_cart_pole(CartPoleEnv(), cart) for cart in CARTS])

    def result(self, episode_return: float, facts: Mapping[str, KeyValue]) -> float:
        """The steps that the pole stood, whatever each of them paid."""
        (cart,) = (each for each in CARTS if each.name == facts["variant"])
        return episode_return / cart.reward


class _Carts(TensorGame):
    def __init__(self, environments: list[Any]) -> None:
        self._environments = environments
        self._number = self._steps = 0
        self._fell = True
        self._observation = np.zeros(CartPoleFamily.observation_size, np.float32)

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """Begin with the cart that the seed's remainder names."""
        self._number, self._steps, self._fell = seed % len(CARTS), 0, False
        observation, _ = self._environments[self._number].reset(seed=seed)
        self._see(observation)
        return {"variant": CARTS[self._number].name}

    @property
    def to_act(self) -> tuple[str, ...]:
        """``PLAYER`` until the pole has fallen or stood long enough."""
        return () if self._fell or self._steps >= LONGEST else (SEAT,)

    def observation(self, seat: str) -> FloatArray:  # noqa: ARG002
        """The pole's state, and a 1 in the place of the cart."""
        return self._observation

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Push the cart to the left (0) or to the right (1)."""
        observation, _, fell, _, _ = self._environments[self._number].step(chosen[SEAT])
        self._see(observation)
        self._steps, self._fell = self._steps + 1, bool(fell)
        return {SEAT: CARTS[self._number].reward}

    @property
    def was_cut_off(self) -> bool:
        """Whether the pole still stood at the last step."""
        return not self._fell and self._steps >= LONGEST

    def _see(self, observation: Any) -> None:
        which = np.zeros(len(CARTS), np.float32)
        which[self._number] = 1.0
        self._observation = np.concatenate([np.asarray(observation, np.float32), which])


def _cart_pole(environment: Any, cart: Cart) -> Any:
    environment.length, environment.masspole, environment.force_mag = cart.half_length, cart.pole_mass, cart.force
    environment.total_mass = environment.masspole + environment.masscart
    environment.polemass_length = environment.masspole * environment.length
    return environment
