"""Settings of a task: RLlib's run has them, and the same discount as the core's."""

import pytest

from cluster.comparison.cell import Cell, _Grouped, _Rllib
from cluster.comparison.methods import METHODS, RLLIB_ON_TASK, RLLIB_SETTINGS, discount
from services.environments.tensor_tasks.catalogue import make_task


@pytest.mark.parametrize("name", ["cartpole", "lunar_lander", "navigation"])
def test_both_sides_have_a_tasks_discount_and_rllib_what_is_its_own_there(name):
    task = make_task(name)
    ours = _Grouped(Cell("grpo_time", name, 0, 10**6, 10), METHODS["grpo_time"], task, None)
    theirs = _Rllib(Cell("rllib_ppo", name, 0, 10**6, 10), task)
    try:
        config = theirs._training._algorithm.config
        assert config.gamma == ours._learner.settings.discount == discount(name)
        for setting, value in {**RLLIB_SETTINGS, **RLLIB_ON_TASK.get(name, {})}.items():
            assert getattr(config, setting) == value, setting
    finally:
        theirs.close()
        ours.close()


def test_a_cells_own_settings_come_last():
    task = make_task("lunar_lander")
    theirs = _Rllib(Cell("rllib_ppo", "lunar_lander", 0, 10**6, 10, settings={"gamma": 0.5, "lambda_": 0.6}), task)
    try:
        assert (theirs._training._algorithm.config.gamma, theirs._training._algorithm.config.lambda_) == (0.5, 0.6)
    finally:
        theirs.close()
