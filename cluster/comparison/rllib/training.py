"""RLlib's PPO, trained in this process on a task; its policy is asked as ours are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env
from torch import Tensor, nn

from cluster.comparison.rllib.environments import COUNTED, Counted, OneSeat, SeveralSeats, is_masked
from grpo_core.small_networks.distributions import Distribution, Numbered, Vectors
from grpo_core.small_networks.networks import HIDDEN
from services.environments.tensor_task import TensorTask

_SHARED = "shared"  # one policy plays all seats
_SIDE_BY_SIDE = 8
# Steps that are sampled at a time in each environment. RLlib converts all episodes of several seats that have ended
# once more at each step, which takes most of the time of longer ones.
_FRAGMENT = 8
STRETCH = _SIDE_BY_SIDE * _FRAGMENT  # the steps of an update are a multiple of it


class RllibTraining:
    """One run; ``train`` makes an update, ``policy`` is what plays."""

    def __init__(self, task: TensorTask, seed: int, settings: Mapping[str, Any]) -> None:
        """``settings`` are those of ``PPOConfig.training``."""
        name = f"{task.name}-{seed}-{id(self)}"
        self._task = task
        several = len(task.seats) > 1
        game = task.make()
        self._masked = is_masked(task, game)
        game.close()
        kind: Callable[..., Any] = SeveralSeats if several or self._masked else OneSeat
        register_env(name, lambda context: kind(task, name, seed * 1_000_003 + context.vector_index))
        COUNTED[name] = self.counted = Counted()
        model = DefaultModelConfig(fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False)
        spec = RLModuleSpec(ActionMaskingTorchRLModule if self._masked else None, model_config=model)
        config = (
            PPOConfig()
            .environment(name)
            .env_runners(num_env_runners=0, num_envs_per_env_runner=_SIDE_BY_SIDE, rollout_fragment_length=_FRAGMENT)
            .learners(num_learners=0)
            .training(**settings)
            .debugging(seed=seed, log_level="ERROR")
        )
        if several or self._masked:
            config = config.multi_agent(policies={_SHARED}, policy_mapping_fn=lambda *_, **__: _SHARED)
            config = config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={_SHARED: spec}))
        else:
            config = config.rl_module(rl_module_spec=spec)
        self._module_id = _SHARED if several or self._masked else "default_policy"
        self._algorithm = config.build_algo()

    def train(self) -> None:
        """Make one update."""
        self._algorithm.train()

    @property
    def policy(self) -> nn.Module:
        """What plays now; called as a ``SmallPolicy`` is."""
        return _Asked(self._algorithm.get_module(self._module_id), self._task.actions.are_numbered)

    def close(self) -> None:
        """Stop the algorithm and close its environments."""
        self._algorithm.stop()


class _Asked(nn.Module):
    """An RLlib module with the call of ``SmallPolicy``."""

    def __init__(self, module: Any, are_numbered: bool) -> None:
        super().__init__()
        self._module = [module]  # not a part of this one
        self._are_numbered = are_numbered

    def forward(self, observations_ND: Tensor, legal_NA: Tensor | None = None) -> Distribution:
        """See ``SmallPolicy.forward``."""
        seen: Any = observations_ND
        if legal_NA is not None:
            seen = {"observations": observations_ND, "action_mask": legal_NA.float()}
        out: Tensor = self._module[0].forward_exploration({Columns.OBS: seen})[Columns.ACTION_DIST_INPUTS]
        if not self._are_numbered:
            mean_NA, log_deviation_NA = out.chunk(2, dim=-1)
            return Vectors(mean_NA, log_deviation_NA)
        return Numbered(out if legal_NA is None else out.masked_fill(~legal_NA, -math.inf))
