"""When a run of a comparison has diverged, and when it has failed."""

from dataclasses import replace

import pytest
import torch

from cluster.comparison.cell import Cell, _train
from cluster.comparison.methods import METHODS, settings_digest
from grpo_core.errors import DivergenceError

CELL = Cell("rllib_ppo", "cartpole", 0, 100, 1)


class Training:
    """An update that ends with these weights, or fails."""

    steps, episodes, policy = 7, 1, torch.nn.Identity()

    def __init__(self, weight, failure=None):
        self.weights, self._failure = [torch.ones(3), torch.tensor([1.0, weight])], failure

    def train(self):
        if self._failure is not None:
            raise self._failure

    def close(self):
        pass


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_a_divergence_whatever_was_raised(weight):
    with pytest.raises(DivergenceError, match="rllib_ppo~cartpole~0 are no numbers after 7 steps"):
        _train(Training(weight), CELL)
    with pytest.raises(DivergenceError, match="no numbers: probability tensor"):
        _train(Training(weight, RuntimeError("probability tensor contains nan")), CELL)


def test_other_failures_stay_what_they_are():
    _train(Training(1.0), CELL)
    with pytest.raises(RuntimeError, match="full"):
        _train(Training(1.0, RuntimeError("disk full")), CELL)


def test_the_digest_of_the_settings_changes_with_them_alone(monkeypatch):
    before = settings_digest()
    assert before == settings_digest()
    named = {name: replace(method, title=f"{method.title}!") for name, method in METHODS.items()}
    monkeypatch.setattr("cluster.comparison.methods.METHODS", named)
    assert before == settings_digest()
    monkeypatch.setattr("cluster.comparison.methods.RLLIB_SETTINGS", {"lr": 1.0})
    assert settings_digest() != before
