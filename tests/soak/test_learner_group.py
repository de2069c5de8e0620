"""A learner of two and four processes: its updates, and each process killed in turn in a drill."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.runtime.local_ray import local_ray, prepare_local_ray
from tests.system.support.drill_of_kinds import check_ranks_killed
from tests.system.support.learner_group import (
    LORA,
    SPECIALISTS,
    check_two_make_the_updates_of_one,
    largest_difference,
    learner_of,
    saved,
    train,
)
from tests.system.support.mortal_peer import check_death_within_a_checkpoint

prepare_local_ray()
pytestmark = pytest.mark.timeout(7200)

UPDATES = 20
every_text = pytest.mark.parametrize("free", [False, True], ids=["masked", "free text"])
every_weights = pytest.mark.parametrize(
    "settings", [(), LORA, SPECIALISTS], ids=["full weights", "adapter", "adapters of roles"]
)


@every_text
@every_weights
def test_two_processes_make_the_updates_of_one(tmp_path: Path, settings: tuple[str, ...], free: bool) -> None:
    with local_ray(2, print):
        check_two_make_the_updates_of_one(tmp_path, settings, updates=UPDATES, free=free)


@every_text
@every_weights
def test_four_processes_make_the_updates_of_one_and_are_resumed_by_two_and_one(
    tmp_path: Path, settings: tuple[str, ...], free: bool
) -> None:
    settings = (*settings, *(("inference.decoding=free",) if free else ()))
    run = tmp_path / "run"
    with local_ray(2, print):
        with learner_of(4, run, *settings) as (worker, _):
            train(worker, UPDATES, free=free)
            of_four = saved(worker.checkpoint())
            buffer = worker._buffer
        with learner_of(1, tmp_path / "alone", *settings) as (worker, _):
            train(worker, UPDATES, free=free)
            assert largest_difference(saved(worker.checkpoint()), of_four) < 1e-6
            train(worker, 2, free=free)
            alone = saved(worker.checkpoint())
        for processes in (2, 1):
            with learner_of(processes, run, *settings, resume=True, buffer=buffer) as (worker, _):
                train(worker, 1, free=free)
                resumed = saved(worker.checkpoint())
        assert largest_difference(alone, resumed) < 1e-6


@pytest.mark.parametrize(
    ("settings", "tensor"),
    [((), 1), ((), 12), (LORA, 12), (LORA, 40), (SPECIALISTS, 60)],
    ids=["full weights, 1st", "full weights, 12th", "adapter, 12th", "adapter, 40th", "adapters of roles, 60th"],
)
def test_a_death_within_a_checkpoint_loses_and_doubles_no_episode(
    tmp_path: Path, settings: tuple[str, ...], tensor: int
) -> None:
    with local_ray(2, print):
        check_death_within_a_checkpoint(tmp_path, settings, tensor)


@pytest.mark.parametrize("processes", [2, 4])
def test_each_process_is_killed_in_turn(tmp_path: Path, processes: int) -> None:
    check_ranks_killed(tmp_path, processes)
