"""The processes of a learner must run the same software and make the same update; the errors say who does not."""

from __future__ import annotations

import dataclasses

import pytest

from cluster.actors.learner_group.meeting import check_same_software, software
from cluster.actors.learner_group.member import Step, check_alike
from cluster.errors import RunError
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, Episode
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model

GROUPING = GroupingSettings(keys=("country",), min_group_size=2)


def step_of(episodes: tuple[Episode, ...], seed: int = 0) -> Step:
    """The figures of a first update."""
    learner = Learner(tiny_model(), LearnerSettings(tokens_per_microbatch=4096), GROUPING, seed)
    return Step.of(1, learner.step(Batch(episodes, 0)))


def summed_alike(step: Step, own: Step) -> Step:
    """A step with the loss and the norm of ``own``, as all processes have them after they summed."""
    return dataclasses.replace(step, loss=own.loss, grad_norm=own.grad_norm)


def test_the_same_batch_gives_the_same_figures() -> None:
    own, other = step_of(ragged_episodes(1)), step_of(ragged_episodes(1))
    assert len(own.digests) == 4
    check_alike(own, [other, other])


def test_other_rewards_are_seen_although_the_sums_are_alike() -> None:
    first, *rest = ragged_episodes(1)
    turns = tuple(dataclasses.replace(turn, reward=turn.reward + 1e-6) for turn in first.turns)
    own = step_of((first, *rest))
    other = summed_alike(step_of((dataclasses.replace(first, turns=turns), *rest)), own)
    with pytest.raises(RunError) as caught:
        check_alike(own, [own, other])
    assert str(caught.value) == (
        "update 1: not all processes of the learner have the figures of process 0 (process 2 of the learner: "
        "advantages, running baselines): all must run the same Entente and libraries on the same kind of CPU"
    )


def test_other_shuffles_turns_and_sums_are_named() -> None:
    own = step_of(ragged_episodes(1))
    shuffled = summed_alike(step_of(ragged_episodes(1), seed=1), own)
    with pytest.raises(RunError, match=r"\(process 1 of the learner: shuffles\)"):
        check_alike(own, [shuffled])
    fewer = dataclasses.replace(own, loss=own.loss + 1e-9, digests={**own.digests, "turns in the loss": ""})
    with pytest.raises(RunError, match=r"learner: shuffles; process 2 of the learner: loss, turns in the loss\)"):
        check_alike(own, [shuffled, fewer])


def test_other_versions_are_refused_before_the_processes_join() -> None:
    check_same_software([software(), software()])
    older = {**software(), "torch": "1.0"}
    with pytest.raises(RunError, match=r"process 2 of the learner has entente \S+, torch 1.0, numpy .* process 0 has"):
        check_same_software([software(), older])
