"""The control tasks by name, in three tiers: simple, from a machine's memory, with continuous actions; and two more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from services.environments.tensor_task import TensorTask
from services.environments.tensor_tasks.control.cartpole_family import CartPoleFamily
from services.environments.tensor_tasks.control.gymnasium_task import GymnasiumTask
from services.environments.tensor_tasks.control.navigation import CooperativeNavigation

_FIRE = 1  # Breakout's action that serves
_FRAMES = 27_000  # of four of the machine's each: half an hour of play


def _with_atari() -> None:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no greeting for each instance


def _with_mujoco() -> None:
    import logging

    import mujoco

    # By default each warning, such as one of gymnasium's own models, is printed and written to a file in this folder.
    mujoco.set_mju_user_warning(logging.getLogger("mujoco").info)


_atari = partial(
    GymnasiumTask,
    longest=_FRAMES,
    extra="atari",
    register=_with_atari,
    measured_episodes=5,
    obs_type="ram",
    max_episode_steps=_FRAMES,
)

# Random returns were measured over 200 episodes (Pong 10, Breakout 60, half cheetah 20); goals are gymnasium's
# thresholds, if any.
CONTROL_TASKS: Mapping[str, Callable[[], TensorTask]] = {
    "cartpole": partial(
        GymnasiumTask, "cartpole", "CartPole-v1", longest=500, random_return=22.5, goal=475.0, extra="control"
    ),
    "lunar_lander": partial(
        GymnasiumTask, "lunar_lander", "LunarLander-v3", longest=1000, random_return=-205.0, goal=200.0, extra="control"
    ),
    "pong": partial(_atari, "pong", "ALE/Pong-v5", random_return=-20.3, goal=21.0),
    "breakout": partial(_atari, "breakout", "ALE/Breakout-v5", random_return=1.4, goal=30.0, serve=_FIRE),
    "inverted_pendulum": partial(
        GymnasiumTask, "inverted_pendulum", "InvertedPendulum-v5", longest=1000, random_return=5.3, goal=950.0,
        extra="control", register=_with_mujoco,
    ),
    "half_cheetah": partial(
        GymnasiumTask, "half_cheetah", "HalfCheetah-v5", longest=1000, random_return=-275.0, goal=4800.0,
        extra="control", register=_with_mujoco,
    ),
    "cartpole_family": CartPoleFamily,
    "navigation": CooperativeNavigation,
}  # fmt: skip
