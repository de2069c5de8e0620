"""RLlib's PPO, trained in this process on a task; its policy is asked as ours are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env
from torch import Tensor, nn

from cluster.comparison.rllib.clipping import ClippedApart
from cluster.comparison.rllib.environments import COUNTED, Counted, OneSeat, SeveralSeats, is_masked
from grpo_core.seeds import derive_seed
from grpo_core.small_networks.distributions import Distribution, Numbered, Vectors
from grpo_core.small_networks.networks import HIDDEN
from services.environments.tensor_task import TensorTask

_SHARED = "shared"  # one policy plays all seats
SIDE_BY_SIDE = 8  # environments; the steps of an update are a multiple of it
# Steps that each environment plays between two looks at the batch, where several seats play short games. RLlib cuts
# advantages off there, so longer would be better; but at each step it converts all games once more that have ended
# since the last look, which takes most of the time of a longer stretch.
_SHORT_GAMES = 32


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
        numbers = itertools.count()  # RLlib tells all environments that they are the first
        register_env(name, lambda _: kind(task, name, derive_seed(seed, task.name, str(next(numbers)))))
        COUNTED[name] = self.counted = Counted()
        model = DefaultModelConfig(
            fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False,
            free_log_std=not task.actions.are_numbered,  # one deviation for all states, as our policies have it
        )  # fmt: skip
        spec = RLModuleSpec(ActionMaskingTorchRLModule if self._masked else None, model_config=model)
        config = (
            PPOConfig()
            .environment(name, normalize_actions=False, clip_actions=True)
            .env_runners(
                num_env_runners=0,
                num_envs_per_env_runner=SIDE_BY_SIDE,
                rollout_fragment_length=_stretch(task, settings["train_batch_size"]),
            )
            .learners(num_learners=0)
            .training(learner_class=ClippedApart, **settings)
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

    @property
    def weights(self) -> Iterable[Tensor]:
        """The weights of the policy and its critic."""
        found: Iterable[Tensor] = self._algorithm.get_module(self._module_id).parameters()
        return found

    def close(self) -> None:
        """Stop the algorithm and close its environments."""
        self._algorithm.stop()


def _stretch(task: TensorTask, batch: int) -> int:
    """The steps of each environment between two looks, of which a batch is a whole number."""
    each = batch // SIDE_BY_SIDE
    if len(task.seats) == 1 or task.longest > _SHORT_GAMES:
        return each
    return max(count for count in range(1, min(each, _SHORT_GAMES) + 1) if each % count == 0)


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
