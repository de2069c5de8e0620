"""The learning rate of each method on each task.

Every method was tuned by the same runs: five rates with two seeds on the task itself, or on the one of its kind that
``TUNED_ON`` names. The record is tests/benchmarks/comparison/learning_rates.json.
"""

from __future__ import annotations

from collections.abc import Mapping

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
_POKER = "leduc_poker"
TUNED_ON: Mapping[str, str] = {
    "cartpole": "cartpole",
    "cartpole_family": "cartpole_family",
    "lunar_lander": "lunar_lander",
    "inverted_pendulum": "inverted_pendulum",
    "half_cheetah": "half_cheetah",
    "pong": "breakout",
    "breakout": "breakout",
    "navigation": "navigation",
    "diplomacy_random": "diplomacy_random",
    "diplomacy_dumbbot": "diplomacy_random",
    "kuhn_poker": _POKER,
    "leduc_poker": _POKER,
    "kuhn_poker(players=3)": _POKER,
}
_USUAL = 3e-3
_OTHERS: Mapping[str, Mapping[str, float]] = {  # what is not the usual rate, by the task that it was found on
    "cartpole": {
        "rllib_ppo": 1e-3,
        "reinforce_time": 1e-2,
        "grpo_batch": 1e-3,
        "grpo_start": 1e-2,
        "grpo_choose": 1e-2,
        "grpo_auto": 1e-2,
        "grpo_adaptive": 1e-2,
        "grpo_dirichlet": 1e-3,
        "grpo_routed": 1e-3,
    },
    "cartpole_family": {
        "rllib_ppo": 3e-4,
        "ppo_grouped": 3e-4,
        "reinforce_time": 1e-2,
        "grpo_batch": 3e-4,
        "grpo_task": 1e-2,
        "grpo_pcgrad": 3e-4,
        "grpo_cagrad": 1e-2,
        "grpo_routed": 3e-4,
    },
    "inverted_pendulum": {"rllib_ppo": 1e-3, "reinforce_time": 1e-2, "grpo_batch": 1e-2, "grpo_start": 1e-2},
    "half_cheetah": {"ppo_grouped": 1e-3, "grpo_time": 3e-4},
    "leduc_poker": {"rllib_ppo": 3e-4, "ppo_grouped": 1e-2},
    "navigation": {"rllib_ppo": 3e-4, "ppo_grouped": 1e-3, "grpo_no_seats": 1e-3},
    "breakout": {"ppo_grouped": 1e-3, "grpo_batch": 1e-2},
    "diplomacy_random": {"ppo_grouped": 1e-2, "grpo_time": 1e-2},
}


def learning_rate(method: str, task: str) -> float:
    """The rate of a method on a task; on a task that nothing was tuned for it is the usual one."""
    return _OTHERS.get(TUNED_ON.get(task, ""), {}).get(method, _USUAL)
