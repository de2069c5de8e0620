"""A task whose whole course is known: two seats take turns, and one of them earns what the other chose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grpo_core.types import BoolArray, FloatArray, KeyValue
from services.environments.tensor_task import Action, Actions, TensorGame, TensorTask

FIRST, SECOND = "FIRST", "SECOND"
ROUNDS = 3


class Turns(TensorTask):
    """FIRST chooses 0 to 2, then SECOND, three times; FIRST is paid at once, SECOND what FIRST chose before."""

    name = "turns"
    seats = (FIRST, SECOND)
    observation_size = 2
    actions = Actions(3)
    longest = 2 * ROUNDS
    random_return = 0.0
    goal = 2.0

    def make(self) -> TensorGame:
        """Make an instance."""
        return _Turns()


class _Turns(TensorGame):
    def __init__(self) -> None:
        self._step = 0
        self._seed = 0

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        self._step, self._seed = 0, seed
        return {"parity": seed % 2}

    @property
    def to_act(self) -> tuple[str, ...]:
        if self._step == 2 * ROUNDS:
            return ()
        return (FIRST,) if self._step % 2 == 0 else (SECOND,)

    def observation(self, seat: str) -> FloatArray:
        return np.array([self._step, self._seed], np.float32) + (0 if seat == FIRST else 100)

    def legal(self, seat: str) -> BoolArray:
        return np.array([True, True, seat == FIRST])

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        ((seat, action),) = chosen.items()
        self._step += 1
        if seat == FIRST:
            return {FIRST: float(int(action)), SECOND: 10.0 * float(int(action))}
        return {}

    @property
    def figures(self) -> Mapping[str, float]:
        return {"seed": float(self._seed)}
