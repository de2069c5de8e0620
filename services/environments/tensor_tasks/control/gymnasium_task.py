"""Any gymnasium environment for one agent as a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grpo_core.types import FloatArray, KeyValue
from services.environments.tensor_task import Action, Actions, TaskError, TensorGame, TensorTask

SEAT = "PLAYER"
_BYTE = 255.0
_SERVES = 2  # steps: a machine that repeats the action before at random loses one serve in 256
_MOTION = 8.0  # a byte moves by few of its 256 values from one step to the next


class GymnasiumGame(TensorGame):
    """One environment; its single seat is ``PLAYER``."""

    def __init__(self, environment: Any, serve: int | None = None) -> None:
        """``serve`` is the action that brings the ball into play: it takes the place of the first ones of each life."""
        self._environment, self._serve = environment, serve
        self._lives = self._serves_left = 0
        self._has_bytes = environment.observation_space.dtype == np.uint8
        self._observation = self._seen = np.zeros(0, np.float32)
        self._over = True
        self._cut_off = False

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """See ``TensorGame.reset``; there are no facts of a start."""
        observation, told = self._environment.reset(seed=seed)
        self._see(observation, at_start=True)
        self._lives, self._serves_left = int(told.get("lives", 0)), _SERVES
        self._over = self._cut_off = False
        return {}

    @property
    def to_act(self) -> tuple[str, ...]:
        """``PLAYER`` until the episode is over."""
        return () if self._over else (SEAT,)

    def observation(self, seat: str) -> FloatArray:  # noqa: ARG002
        """The environment's observation as one vector.

        Bytes, such as a machine's memory, lie in [-1, 1], followed by how much each changed in the last step, times 8
        and cut at 1: one moment does not say where a ball flies.
        """
        return self._observation

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Take the action; the reward is the environment's."""
        serves = self._serve is not None and self._serves_left > 0
        action = self._serve if serves else chosen[SEAT]
        observation, reward, over, cut_off, told = self._environment.step(action)
        self._see(observation, at_start=False)
        lives = int(told.get("lives", 0))
        self._serves_left = _SERVES if lives < self._lives else self._serves_left - serves
        self._lives = lives
        self._over = bool(over or cut_off)
        self._cut_off = bool(cut_off and not over)
        return {SEAT: float(reward)}

    @property
    def was_cut_off(self) -> bool:
        """Whether the environment's limit of steps ended the episode."""
        return self._cut_off

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _see(self, observation: Any, *, at_start: bool) -> None:
        seen = np.array(observation, np.float32).reshape(-1)
        if not self._has_bytes:
            self._observation = seen
            return
        seen = seen / np.float32(_BYTE / 2) - 1
        before = seen if at_start else self._seen
        self._observation = np.concatenate([seen, np.clip((seen - before) * np.float32(_MOTION), -1, 1)])
        self._seen = seen


class GymnasiumTask(TensorTask):
    """A task whose instances are made by ``gymnasium.make``."""

    seats = (SEAT,)

    def __init__(
        self,
        name: str,
        environment: str,
        *,
        longest: int,
        random_return: float,
        goal: float,
        extra: str,
        measured_episodes: int = 20,
        register: Callable[[], None] | None = None,
        serve: int | None = None,
        **options: Any,
    ) -> None:
        """``register`` makes the environment known to gymnasium; ``extra`` is what installs its packages.

        With ``serve`` that action takes the place of the first ones of each life: without it no ball comes into play.

        Raises TaskError if a package is missing.
        """
        self.name, self.longest, self.random_return, self.goal = name, longest, random_return, goal
        self.measured_episodes = measured_episodes
        self._environment, self._extra, self._register, self._options = environment, extra, register, options
        self._serve = serve
        made = self._made()
        try:
            space, chosen = made.observation_space, made.action_space
            self.observation_size = int(np.prod(space.shape)) * (2 if space.dtype == np.uint8 else 1)
            if hasattr(chosen, "n"):
                self.actions = Actions(int(chosen.n))
            else:
                low, high = (tuple(map(float, bound.reshape(-1))) for bound in (chosen.low, chosen.high))
                self.actions = Actions(len(low), low, high)
        finally:
            made.close()

    def make(self) -> TensorGame:
        """Make an environment; raises TaskError if a package is missing."""
        return GymnasiumGame(self._made(), self._serve)

    def _made(self) -> Any:
        try:
            import gymnasium

            if self._register is not None:
                self._register()
            return gymnasium.make(self._environment, **self._options)
        except ImportError as error:
            raise missing(self.name, self._extra, error) from error
        except Exception as error:
            if type(error).__name__ != "DependencyNotInstalled":  # gymnasium's own, for what an environment needs
                raise
            raise missing(self.name, self._extra, error) from error


def missing(task: str, extra: str, error: Exception) -> TaskError:
    """The error for a task whose packages are not installed."""
    name = getattr(error, "name", None)
    package = f"{name} is" if name else "its packages are"
    return TaskError(f"the task {task} cannot be played: {package} not installed; pip install 'entente[{extra}]'")
