"""The weighted mixture of reward components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from services.environments.word_problems.problem import WordProblem
from services.environments.word_problems.rewards.components import Component
from services.environments.word_problems.rewards.custom import checked_value, component
from services.environments.word_problems.rewards.settings import RewardSettings


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of one completion, and the components that it is made of."""

    total: float  # from 0 to the mixture's scale
    components: Mapping[str, float]  # name -> value from 0 to 1, before its weight


class Mixture:
    """A reward function: the weighted mean of components, times a scale.

    Weights are divided by their sum. Components without a weight are measured too where they are listed with 0, so
    that they can be logged.
    """

    def __init__(self, settings: RewardSettings) -> None:
        """Look up all components. Raises RewardError if one cannot be used."""
        total = sum(settings.weights.values())
        self.weights: Mapping[str, float] = MappingProxyType(
            {name: weight / total for name, weight in settings.weights.items()}
        )
        self._components: dict[str, Component] = {name: component(name) for name in settings.weights}
        self._scale = settings.scale

    def __call__(self, completion: str, problem: WordProblem) -> Reward:
        """Return the reward of a completion. Raises RewardError if a component's result is not from 0 to 1."""
        values = {name: checked_value(name, each(completion, problem)) for name, each in self._components.items()}
        total = min(1.0, sum(self.weights[name] * value for name, value in values.items()))
        return Reward(self._scale * total, MappingProxyType(values))
