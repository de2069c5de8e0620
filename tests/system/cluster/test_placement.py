"""Placement groups in a real Ray with simulated GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runtime.actor_env import actor_environment
from cluster.runtime.placement import Placement, placed
from cluster.runtime.ray_calls import shut_down_ray

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    ray.init(
        address="local", num_cpus=5, num_gpus=4, include_dashboard=False, log_to_driver=False,
        object_store_memory=100 << 20,
    )  # fmt: skip
    yield
    shut_down_ray()


class Looker:
    def gpus(self) -> tuple[list[int], str | None]:
        return [int(name) for name in ray.get_gpu_ids()], os.environ.get(VISIBLE)


def look(places: Placement) -> list[list[int]]:
    """The GPUs of the learner, then of each rollout actor."""
    learner = ray.remote(Looker).options(
        **places.of_learner(), runtime_env=actor_environment(1, gpus=places.learner.gpus)
    )
    gpus = places.rollout.gpus_per_actor
    rollouts = [
        ray.remote(Looker).options(**places.of_rollout(slot), runtime_env=actor_environment(1, gpus=gpus))
        for slot in range(places.rollout.actors)
    ]
    actors = [options.remote() for options in (learner, *rollouts)]
    seen = ray.get([actor.gpus.remote() for actor in actors], timeout=300)
    for actor in actors:
        ray.kill(actor)
    for numbers, visible in seen:
        assert visible == ",".join(map(str, numbers)), "an actor sees other GPUs than its own"
    return [numbers for numbers, _ in seen]


def config(*overrides: str) -> Config:
    return load_config("smoke", overrides)


def places_of(asked: Config) -> AbstractContextManager[Placement]:
    return placed(asked.rollout, asked.learner, may_grow=False)


def test_every_actor_sees_its_own_gpus_and_placements_are_freed() -> None:
    with places_of(config("learner.gpus=1", "rollout.gpus_per_actor=1", "rollout.actors=3")) as places:
        assert sorted(gpu for numbers in look(places) for gpu in numbers) == [0, 1, 2, 3]
    with places_of(config("rollout.gpus_per_actor=4", "inference.tensor_parallel_size=4")) as places:
        assert [len(numbers) for numbers in look(places)] == [0, 4]
    with places_of(config("rollout.actors=4", "rollout.gpus_per_actor=0.5", "rollout.cpus_per_actor=0.5")) as places:
        learner, *rollouts = look(places)
        assert learner == []
        assert len({number for (number,) in rollouts}) == 2


def test_a_learner_and_rollouts_that_take_turns_see_the_same_gpu() -> None:
    with places_of(
        config("rollout.share_gpu_with_learner=true", "rollout.gpus_per_actor=1", "learner.gpus=1")
    ) as places:
        learner, rollout = look(places)
        assert learner == rollout
        assert len(learner) == 1


def test_a_cluster_that_may_grow_is_waited_for_and_the_user_is_told() -> None:
    asked, notices = config("rollout.actors=6", "learner.processes=2", "rollout.node_timeout_s=12"), []
    with (
        pytest.raises(RunError, match=r"within 12 s \(rollout.node_timeout_s\): they ask for 6 x \[1 CPU\]"),
        placed(asked.rollout, asked.learner, may_grow=True, notice=notices.append),
    ):
        raise AssertionError("placed")
    assert notices == ["Ray has no room yet for 6 x [1 CPU]; the run waits up to 12 s (rollout.node_timeout_s)"]
    with places_of(config("rollout.actors=4")):
        pass  # neither group of the refused run holds resources


def test_the_user_is_also_told_where_there_are_nodes_enough_but_in_use() -> None:
    asked, notices = config("rollout.gpus_per_actor=4", "rollout.start_timeout_s=12"), []
    with (
        places_of(config("learner.gpus=1")),
        pytest.raises(RunError, match=r"within 12 s \(rollout.start_timeout_s\)"),
        placed(asked.rollout, asked.learner, may_grow=True, notice=notices.append),
    ):
        raise AssertionError("placed")
    assert len(notices) == 1
    assert "no room yet" in notices[0]


def test_an_impossible_placement_is_refused_in_one_line_with_request_and_resources() -> None:
    with pytest.raises(RunError) as caught, places_of(config("rollout.actors=2", "rollout.gpus_per_actor=3")):
        raise AssertionError("placed")
    text = str(caught.value)
    assert "they ask for [1 CPU], 2 x [1 CPU, 3 GPUs], each on one node; its nodes have [5 CPUs, 4 GPUs]" in text
    assert "rollout.gpus_per_actor" in text
    assert "\n" not in text
    # The cluster has enough, but it is in use: the wait is as long as an actor may take to start.
    with places_of(config("learner.gpus=1")):
        waits = config("rollout.gpus_per_actor=4", "rollout.start_timeout_s=2")
        with (
            pytest.raises(RunError, match=r"within 2 s \(rollout.start_timeout_s\).* of which 3 CPUs, 3 GPUs are free"),
            places_of(waits),
        ):
            raise AssertionError("placed")
    with places_of(config("rollout.gpus_per_actor=4")):
        pass  # the refused placement holds no resources
