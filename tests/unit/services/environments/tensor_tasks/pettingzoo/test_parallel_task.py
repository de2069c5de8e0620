"""Tasks as PettingZoo's environments: its own checks, and that nothing is added to or lost from what is paid."""

import subprocess
import sys

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from services.environments.diplomacy.unit_choices.task import UnitChoices
from services.environments.tensor_tasks.catalogue import make_task
from services.environments.tensor_tasks.pettingzoo.parallel_task import WAIT, ParallelTask


def diplomacy():
    return UnitChoices(until_year=1901)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the checks warn of observations without bounds
def test_pettingzoos_own_checks_pass_with_all_seven_powers():
    parallel_api_test(ParallelTask(diplomacy()), num_cycles=60)
    parallel_seed_test(lambda: ParallelTask(diplomacy()), num_cycles=30)


def test_every_seat_is_paid_what_the_task_pays():
    task = make_task("kuhn_poker")
    environment, game = ParallelTask(task), task.make()
    for seed in range(20):
        observations, _ = environment.reset(seed=seed)
        game.reset(int(np.random.default_rng(seed).integers(2**31)))
        paid, due = dict.fromkeys(task.seats, 0.0), dict.fromkeys(task.seats, 0.0)
        while environment.agents:
            (acting,) = game.to_act
            masks = {seat: np.flatnonzero(seen["action_mask"]) for seat, seen in observations.items()}
            assert all(masks[seat].tolist() == [WAIT] for seat in task.seats if seat != acting)
            chosen = {seat: int(mask[-1]) for seat, mask in masks.items()}
            for seat, reward in game.step({acting: chosen[acting]}).items():
                due[seat] += reward
            observations, rewards, _, _, _ = environment.step(chosen)
            for seat, reward in rewards.items():
                paid[seat] += reward
        assert paid == due
        assert game.to_act == ()


def test_a_task_of_vectors_is_refused():
    with pytest.raises(ValueError, match="vectors"):
        ParallelTask(make_task("half_cheetah"))


def test_without_pettingzoo_the_extra_is_named():
    module = "services.environments.tensor_tasks.pettingzoo.parallel_task"
    program = f"import sys; sys.modules['pettingzoo'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: pettingzoo is not installed: pip install 'entente[pettingzoo]'"
