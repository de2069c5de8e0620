"""Small networks: a plain one, one of routed modules, and a critic. Axes: N steps, D observation size, A actions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from grpo_core.small_networks.distributions import Distribution, Numbered, Vectors

HIDDEN = (64, 64)
_HIDDEN_GAIN, _POLICY_GAIN, _VALUE_GAIN = math.sqrt(2), 0.01, 1.0


class SmallPolicy(nn.Module):
    """A policy over vectors: a body, and a head for numbered actions or for vectors."""

    def __init__(self, body: nn.Module, width: int, actions: int, *, are_numbered: bool) -> None:
        """``body`` gives (N, ``width``); the head begins close to even odds, or to a mean of 0."""
        super().__init__()
        self.body = body
        self.head = _linear(width, actions, _POLICY_GAIN)
        self.log_deviation = None if are_numbered else nn.Parameter(torch.zeros(actions))

    def forward(self, observations_ND: Tensor, legal_NA: Tensor | None = None) -> Distribution:
        """Return what is chosen in each step; ``legal_NA`` is True where a numbered action may be."""
        out_NA = self.head(self.body(observations_ND))
        if self.log_deviation is not None:
            return Vectors(out_NA, self.log_deviation)
        return Numbered(out_NA if legal_NA is None else out_NA.masked_fill(~legal_NA, -math.inf))


def plain_policy(observations: int, actions: int, *, are_numbered: bool, hidden: Sequence[int] = HIDDEN) -> SmallPolicy:
    """Make a policy whose body is a chain of layers with tanh between them."""
    return SmallPolicy(_chain(observations, hidden), hidden[-1], actions, are_numbered=are_numbered)


def routed_policy(
    observations: int, actions: int, *, are_numbered: bool, width: int = 32, modules: int = 4, layers: int = 2
) -> SmallPolicy:
    """Make a policy of softly routed modules (R. Yang et al., "Multi-Task Reinforcement Learning with Soft
    Modularization", NeurIPS 2020): the state decides how much each module feeds each one of the next layer.
    """
    return SmallPolicy(RoutedModules(observations, width, modules, layers), width, actions, are_numbered=are_numbered)


class Critic(nn.Module):
    """The worth of states."""

    def __init__(self, observations: int, hidden: Sequence[int] = HIDDEN) -> None:
        super().__init__()
        self.body = _chain(observations, hidden)
        self.head = _linear(hidden[-1], 1, _VALUE_GAIN)

    def forward(self, observations_ND: Tensor) -> Tensor:
        """Return the worth of each state, shape (N,)."""
        values: Tensor = self.head(self.body(observations_ND))[:, 0]
        return values


class RoutedModules(nn.Module):
    """``layers`` of ``modules`` alike; a second network says from the state how they are connected."""

    def __init__(self, observations: int, width: int, modules: int, layers: int) -> None:
        super().__init__()
        self._shape = modules, modules
        self.entry = _linear(observations, width, _HIDDEN_GAIN)
        weights = torch.empty(layers, modules, width, width)
        for module in weights.flatten(0, 1):
            nn.init.orthogonal_(module, _HIDDEN_GAIN)
        self.weights_LMHH = nn.Parameter(weights)
        self.biases_LMH = nn.Parameter(torch.zeros(layers, modules, width))
        self.router = _chain(observations, (width,))
        self.routes = _linear(width, (layers - 1) * modules * modules, 1.0)

    def forward(self, observations_ND: Tensor) -> Tensor:
        """Return the mean of the last layer's modules, shape (N, width)."""
        # How much each module (last axis) of a layer feeds each one of the next.
        routes_NLMM = self.routes(self.router(observations_ND)).unflatten(1, (-1, *self._shape)).softmax(-1)
        inputs_NMH = torch.tanh(self.entry(observations_ND))[:, None].expand(-1, self._shape[0], -1)
        for number, (weight_MHH, bias_MH) in enumerate(zip(self.weights_LMHH, self.biases_LMH, strict=True)):
            if number:
                inputs_NMH = routes_NLMM[:, number - 1] @ inputs_NMH
            inputs_NMH = torch.tanh(torch.einsum("nmh,mhk->nmk", inputs_NMH, weight_MHH) + bias_MH)
        return inputs_NMH.mean(1)


def _chain(observations: int, hidden: Sequence[int]) -> nn.Module:
    sizes = [observations, *hidden]
    layers: list[nn.Module] = []
    for width, following in zip(sizes, hidden, strict=False):
        layers += [_linear(width, following, _HIDDEN_GAIN), nn.Tanh()]
    return nn.Sequential(*layers)


def _linear(width: int, following: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights, as is usual for policies (Engstrom et al., ICLR 2020)."""
    layer = nn.Linear(width, following)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
