"""RLlib's learner of PPO with the gradients of policy and critic clipped apart, as the core clips them."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

_CRITIC = ("vf.", "encoder.critic_encoder.")  # how names of its weights begin, where it shares no layer


class ClippedApart(PPOTorchLearner):  # type: ignore[misc]  # Ray has no types
    """One norm of both would leave the policy next to nothing where returns, and so the critic's errors, are large."""

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: Any, module_gradients_dict: dict[Any, Any]
    ) -> dict[Any, Any]:
        """Clip the critic's gradients and those of the rest to ``config.grad_clip`` each."""
        named = self.module[module_id].unwrapped().named_parameters()
        critic = {id(self.get_param_ref(weight)) for name, weight in named if name.startswith(_CRITIC)}
        clipped: dict[Any, Any] = {}
        for is_critics in (False, True):
            part = {
                weight: gradient
                for weight, gradient in module_gradients_dict.items()
                if (id(weight) in critic) == is_critics
            }
            self._get_clip_function()(part, grad_clip=config.grad_clip, grad_clip_by="global_norm")
            clipped.update(part)
        return clipped
