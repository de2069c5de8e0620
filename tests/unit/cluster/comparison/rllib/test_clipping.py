"""RLlib's gradients: those of the policy keep their size whatever the critic's are."""

import pytest
import torch

from cluster.comparison.methods import RLLIB_SETTINGS
from cluster.comparison.rllib.training import RllibTraining
from services.environments.tensor_tasks.catalogue import make_task


@pytest.mark.parametrize("task", ["cartpole", "kuhn_poker"])
def test_policy_and_critic_are_clipped_apart(task):
    settings = {**RLLIB_SETTINGS, "train_batch_size": 64, "minibatch_size": 32, "num_epochs": 1}
    training = RllibTraining(make_task(task), 0, settings)
    try:
        learner = training._algorithm.learner_group._learner
        (module_id,) = learner.module.keys()
        weights = dict(learner.module[module_id].unwrapped().named_parameters())
        critics = {name for name in weights if "critic" in name or name.startswith("vf")}
        assert 0 < len(critics) == len(weights) / 2
        small, large = 0.001, 1000.0
        gradients = {
            weight: torch.full_like(weight, large if name in critics else small) for name, weight in weights.items()
        }
        found = learner.postprocess_gradients(gradients)
        assert len(found) == len(weights)
        norm = torch.stack([found[weights[name]].norm() for name in critics]).norm()
        assert norm == pytest.approx(RLLIB_SETTINGS["grad_clip"], rel=1e-3)
        policys = torch.stack([found[weight].norm() for name, weight in weights.items() if name not in critics]).norm()
        untouched = small * sum(weight.numel() for name, weight in weights.items() if name not in critics) ** 0.5
        assert policys == pytest.approx(untouched, rel=1e-3)
    finally:
        training.close()
