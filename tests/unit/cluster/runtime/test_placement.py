"""Placement of actors: the bundles requested of Ray, and contradicting settings."""

from __future__ import annotations

import pytest
import torch

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.configs.sections import RolloutSettings, TrainingSettings
from cluster.errors import ConfigError, RunError
from cluster.runtime.actor_env import actor_environment
from cluster.runtime.placement import bundles, check_gpus, cpus_asked, gpus_asked


def config(*overrides: str) -> Config:
    return load_config("smoke", overrides)


def request(asked: Config) -> tuple[RolloutSettings, TrainingSettings]:
    return asked.rollout, asked.learner


def check(asked: Config) -> None:
    check_gpus(gpus_asked(*request(asked)), asked.run.ray_address)


def test_every_actor_has_its_own_bundle() -> None:
    asked = config("rollout.actors=3", "rollout.cpus_per_actor=0.5", "rollout.gpus_per_actor=0.25", "learner.gpus=1")
    assert bundles(*request(asked)) == [{"CPU": 1.0, "GPU": 1}, *[{"CPU": 0.5, "GPU": 0.25}] * 3]
    assert (cpus_asked(*request(asked)), gpus_asked(*request(asked))) == (3, 1.75)
    plain = config("rollout.actors=2")
    assert bundles(*request(plain)) == [{"CPU": 1.0}] * 3
    assert gpus_asked(*request(plain)) == 0


def test_a_learner_that_computes_on_cpus_has_a_core_for_each_thread() -> None:
    asked = config("learner.threads=3", "learner.processes=2")
    assert bundles(*request(asked)) == [{"CPU": 3.0}, {"CPU": 3.0}, {"CPU": 1.0}]
    assert cpus_asked(*request(asked)) == 7
    assert bundles(*request(config("learner.threads=3", "learner.gpus=1")))[0] == {"CPU": 1.0, "GPU": 1}
    turns = config("rollout.share_gpu_with_learner=true", "learner.threads=3")
    assert bundles(*request(turns)) == [{"CPU": 4.0}]


def test_all_gpus_of_one_engine_are_in_one_bundle() -> None:
    asked = config("rollout.actors=2", "rollout.gpus_per_actor=4", "inference.tensor_parallel_size=4")
    assert bundles(*request(asked)) == [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 4.0}, {"CPU": 1.0, "GPU": 4.0}]


def test_learner_and_rollouts_that_take_turns_share_one_bundle() -> None:
    asked = config("rollout.share_gpu_with_learner=true", "rollout.gpus_per_actor=1", "learner.gpus=1")
    assert bundles(*request(asked)) == [{"CPU": 2.0, "GPU": 1}]
    assert bundles(*request(config("rollout.share_gpu_with_learner=true"))) == [{"CPU": 2.0}]


@pytest.mark.parametrize(
    ("overrides", "hint"),
    [
        (("rollout.gpus_per_actor=1.5",), "must be whole above 1"),
        (("learner.gpus=2",), "learner.gpus"),
        (("inference.tensor_parallel_size=2",), "must equal inference.tensor_parallel_size (2)"),
        (("inference.tensor_parallel_size=2", "rollout.gpus_per_actor=1"), "rollout.gpus_per_actor (1) must equal"),
        (("rollout.share_gpu_with_learner=true", "rollout.actors=2"), "set rollout.actors"),
        (("rollout.share_gpu_with_learner=true", "learner.gpus=1"), "equal to learner.gpus (1)"),
        (
            ("learner.gradient_checkpointing=true", "learner.activation_offloading=true"),
            "learner.activation_offloading needs learner.gpus = 1",
        ),
        (("learner.activation_offloading=true", "learner.gpus=1"), "set gradient_checkpointing"),
    ],
)
def test_contradicting_placements_are_refused(overrides: tuple[str, ...], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(*overrides)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_few_gpus_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check(config("learner.gpus=1"))
    check(config("rollout.share_gpu_with_learner=true", "rollout.gpus_per_actor=1", "learner.gpus=1"))
    with pytest.raises(RunError, match=r"asks for 2 GPUs \(learner.gpus, rollout.gpus_per_actor\).* sees 1 on") as few:
        check(config("learner.gpus=1", "rollout.gpus_per_actor=1"))
    assert "\n" not in str(few.value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RunError, match="sees none on this machine"):
        check(config("learner.gpus=1"))
    check(config())
    check(config("learner.gpus=1", "run.ray_address=auto"))  # its actors run elsewhere


def test_actors_without_gpus_see_none() -> None:
    assert actor_environment(1)["env_vars"]["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in actor_environment(1, gpus=0.5)["env_vars"]
