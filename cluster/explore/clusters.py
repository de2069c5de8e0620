"""Clusters of a trace's episodes for several numbers of groups, made by the same functions as in training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.clustering import OnlineClusters, adaptive_labels, dirichlet_labels, kmeans_labels
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings

NUMBERS = (2, 3, 4, 6)  # of groups, among which the page's slider chooses, beside the run's own
_MOST = 12  # clusters a role that the page makes for a run with a number of its own
_MADE_HERE = {"auto", "adaptive", "dirichlet", "fork"}  # no characteristics of an episode
ClusterWindow = dict[str, OnlineClusters]  # what adaptive clusters remember, by role


def cluster_labels(trace: Mapping[str, Any], windows: dict[int, ClusterWindow]) -> dict[str, Any]:
    """Return ``{"features": [...], "auto": {"2": labels, ...}, "adaptive": ..., "dirichlet": ...}``.

    Labels are by episode, within its role. They are made from ``grouping.cluster_features`` or else from all numbers
    that are known at an episode's start, as in training; ``features`` are those that vary in this update, and without
    one the table is empty. ``windows`` is what adaptive clusters remember from the traces before, by number of groups,
    and is brought up to date. It misses updates without a trace here, so it can differ a little from training's.

    Raises ValueError if this version does not know a setting of the groups.
    """
    episodes, settings = trace["episodes"], GroupingSettings.model_validate(trace["grouping"])
    features = _features(episodes["facts"], settings)
    varying = [name for name in features if len(set(episodes["facts"][name])) > 1]
    if not varying:
        return {}
    values = np.array([episodes["facts"][name] for name in features], np.float64).T
    roles = np.array(episodes["role"], dtype=object)
    found: dict[str, Any] = {"features": varying, "auto": {}, "adaptive": {}, "dirichlet": {}}
    own_number = {settings.n_groups} if 1 < settings.n_groups <= _MOST else set()
    for number in sorted({*NUMBERS, *own_number}):
        labels = {kind: np.zeros(len(roles), np.int64) for kind in ("auto", "adaptive", "dirichlet")}
        window = windows.setdefault(number, {})
        asked = settings.model_copy(update={"n_groups": number})
        for role in sorted(set(roles)):
            own = np.flatnonzero(roles == role)
            of_role: NDArray[np.float64] = values[own]
            labels["auto"][own] = kmeans_labels(of_role, number, settings.cluster_seed)
            labels["dirichlet"][own] = dirichlet_labels(of_role, number, settings.cluster_seed)
            labels["adaptive"][own], window[role] = adaptive_labels(of_role, features, window.get(role), asked)
        for kind, of_kind in labels.items():
            found[kind][str(number)] = of_kind.tolist()
    return found


def _features(facts: Mapping[str, Any], settings: GroupingSettings) -> tuple[str, ...]:
    named = settings.cluster_features or tuple(sorted(set(facts) - OUTCOME_KEYS - _MADE_HERE))
    return tuple(
        name
        for name in named
        if name in facts
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in facts[name])
    )
