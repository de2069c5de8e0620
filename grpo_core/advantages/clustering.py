"""Clusters of numeric facts known at the start of an episode, made within a role, as facts for key expressions.

Features are standardised within a role; one that does not vary is dropped. There are three such facts:

- ``auto``: k-means of the batch (Lloyd, 1982; k-means++ starts).
- ``adaptive``: mini-batch k-means (Sculley, 2010) over a sliding window of past episodes. Centroids continue from the
  last batch and labels follow them by the cheapest matching, so a label keeps its meaning while the play drifts.
- ``dirichlet``: a Gaussian mixture under a Dirichlet-process prior (Blei and Jordan, 2006), which leaves components
  empty that the batch does not need: ``n_groups`` is the largest number.

An episode counts once, because its number of turns is an outcome. Turns are clustered one by one only where outcome
keys are allowed and ``cluster_features`` names a fact that changes within an episode.

Axes: N rows (episodes), F features, K clusters, W rows of the window.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grpo_core.advantages.grouping import (
    CLUSTER_FACTS,
    CLUSTERS_OF,
    FORK_FACT,
    Sample,
    check_known_at_start,
    declared_expressions,
    fact_of,
    parse_expression,
    turn_facts_of,
)
from grpo_core.errors import GroupingError
from grpo_core.settings import OUTCOME_KEYS, GroupingSettings

# scikit-learn takes a second to import; only runs that make clusters pay it, hence the imports within functions.

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class OnlineClusters:
    """What ``adaptive`` remembers of one role between updates, in the features' own units."""

    features: tuple[str, ...]
    window_WF: Matrix  # the latest samples, oldest first
    centroids_KF: Matrix  # row k is the cluster labelled k


def with_clusters(
    samples: Sequence[Sample], settings: GroupingSettings, past: Mapping[str, OnlineClusters]
) -> tuple[tuple[Sample, ...], dict[str, OnlineClusters]]:
    """Samples with the clusters that key expressions name as facts, and each role's clusters after the batch.

    ``past`` is not changed.

    Raises:
        GroupingError: there is no feature, or a declared one is missing, text, made from outcomes or a turn's.
    """
    outcomes = settings.allow_outcome_keys
    named = {
        fact
        for key in declared_expressions(settings)
        for fact in parse_expression(key, outcomes, role_name=settings.role_name)
    }
    kinds = [kind for kind in CLUSTER_FACTS if kind in named]
    after = dict(past)
    if not kinds or not samples:
        return tuple(samples), after
    names = feature_names(samples, settings)
    by_turn = not {"return", *turn_facts_of(samples)}.isdisjoint(names)  # a turn's sample has its own return
    rows: dict[tuple[str, int], int] = {}
    row_of = [
        rows.setdefault((each.role, number if by_turn else each.episode), len(rows))
        for number, each in enumerate(samples)
    ]
    first = np.unique(row_of, return_index=True)[1].tolist()
    values_NF = np.array([[float(samples[index].facts[name]) for name in names] for index in first], np.float64)
    roles = np.array([role for role, _ in rows], dtype=object)
    labels_N = {kind: np.zeros(len(rows), np.int64) for kind in kinds}
    for role in sorted(set(roles)):
        own = np.flatnonzero(roles == role)
        for kind in kinds:
            if kind == "auto":
                labels_N[kind][own] = kmeans_labels(values_NF[own], settings.n_groups, settings.cluster_seed)
            elif kind == "dirichlet":
                labels_N[kind][own] = dirichlet_labels(values_NF[own], settings.n_groups, settings.cluster_seed)
            else:
                labels_N[kind][own], after[role] = adaptive_labels(values_NF[own], names, after.get(role), settings)
    return tuple(
        replace(sample, facts={**sample.facts, **{kind: int(labels_N[kind][row]) for kind in kinds}})
        for sample, row in zip(samples, row_of, strict=True)
    ), after


def feature_names(samples: Sequence[Sample], settings: GroupingSettings) -> tuple[str, ...]:
    """The facts that clusters are made from: ``cluster_features``, or all numbers that every episode has at its start.

    Raises:
        GroupingError: as in ``with_clusters``.
    """
    turn_facts = turn_facts_of(samples)
    check_known_at_start(CLUSTERS_OF, settings.cluster_features, settings.allow_outcome_keys, turn_facts)
    for name in settings.cluster_features:
        if name in OUTCOME_KEYS and not settings.allow_outcome_keys:
            raise GroupingError(
                f"grouping.cluster_features names {name!r}, which is known only after the actions it would judge"
            )
        for sample in samples:
            value = fact_of(sample, name, "grouping.cluster_features")
            if not _is_number(value):
                raise GroupingError(f"grouping.cluster_features names {name!r}, but it can be {value!r}, not a number")
    if settings.cluster_features:
        return settings.cluster_features
    names = [name for name, value in samples[0].facts.items() if name not in OUTCOME_KEYS | {FORK_FACT} | turn_facts]
    numeric = sorted(name for name in names if all(_is_number(sample.facts.get(name)) for sample in samples))
    if not numeric:
        known = ", ".join(sorted(samples[0].facts.keys() - turn_facts))
        raise GroupingError(
            "clusters need at least one number that is known at an episode's start, and these episodes have only "
            f"{known}; declare one, e.g. difficulty, or use plain keys"
        )
    return tuple(numeric)


def kmeans_labels(values_NF: Matrix, n_groups: int, seed: int) -> Labels:
    """k-means labels (N,), numbered by the centroids' order, whatever the order of the samples."""
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]

    scaled_NF = _features_that_vary(values_NF)
    points_NF, back, counts = np.unique(scaled_NF, axis=0, return_inverse=True, return_counts=True)
    if len(points_NF) == 1:
        return np.zeros(len(values_NF), np.int64)
    model = KMeans(min(n_groups, len(points_NF)), n_init=3, random_state=seed).fit(points_NF, sample_weight=counts)
    return _renumbered(model.labels_[back.ravel()], values_NF)


def dirichlet_labels(values_NF: Matrix, n_groups: int, seed: int) -> Labels:
    """Most likely component (N,) of a Dirichlet-process mixture, empty components left out; see ``kmeans_labels``."""
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.mixture import BayesianGaussianMixture  # type: ignore[import-untyped]

    scaled_NF = _features_that_vary(values_NF)
    different = len(np.unique(scaled_NF, axis=0))
    if different == 1:
        return np.zeros(len(values_NF), np.int64)
    order = np.lexsort(scaled_NF.T)
    model = BayesianGaussianMixture(
        n_components=min(n_groups, different),
        covariance_type="diag",
        weight_concentration_prior_type="dirichlet_process",
        reg_covar=1e-3,  # facts are often whole numbers; a component on one of them alone has no width
        max_iter=200,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an unfinished fit still is a grouping
        labels = model.fit_predict(scaled_NF[order])
    out = np.empty(len(labels), np.int64)
    out[order] = labels
    return _renumbered(out, values_NF)


def adaptive_labels(
    values_NF: Matrix, features: tuple[str, ...], past: OnlineClusters | None, settings: GroupingSettings
) -> tuple[Labels, OnlineClusters]:
    """Labels (N,) of one role's samples by its centroids after this batch, and what to remember.

    Another set of features or fewer ``n_groups`` than before start afresh. The number of clusters grows up to
    ``n_groups`` as different samples come in, and never falls.
    """
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
    from sklearn.cluster import MiniBatchKMeans

    if past is not None and (past.features != features or len(past.centroids_KF) > settings.n_groups):
        past = None
    seen_WF = values_NF if past is None else np.concatenate([past.window_WF, values_NF])
    window_WF = seen_WF[-max(settings.cluster_window, settings.n_groups) :]
    points_WF = _standardised(window_WF, window_WF)
    clusters = min(settings.n_groups, len(np.unique(points_WF, axis=0)))
    old_KF = None if past is None else _standardised(past.centroids_KF, window_WF)
    if old_KF is not None and len(old_KF) >= clusters:
        model = MiniBatchKMeans(len(old_KF), init=old_KF, n_init=1, random_state=settings.cluster_seed)
        new_KF = model.partial_fit(points_WF).cluster_centers_
    else:
        model = MiniBatchKMeans(clusters, n_init=3, random_state=settings.cluster_seed)
        new_KF = model.fit(points_WF).cluster_centers_
    if old_KF is None:
        new_KF = new_KF[np.lexsort(new_KF.T[::-1])]
    else:
        old, new = linear_sum_assignment(_squared_distances(old_KF, new_KF))
        added = np.setdiff1d(np.arange(len(new_KF)), new)
        new_KF = new_KF[np.concatenate([new[np.argsort(old)], added])]
    labels = _squared_distances(_standardised(values_NF, window_WF), new_KF).argmin(axis=1)
    mean_F, scale_F = _location_and_scale(window_WF)
    centroids_KF = mean_F + new_KF * np.where(np.isfinite(scale_F), scale_F, 0.0)
    return labels.astype(np.int64), OnlineClusters(features, window_WF, centroids_KF)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _location_and_scale(values_NF: Matrix) -> tuple[Matrix, Matrix]:
    """Mean and deviation of each feature; infinity where it does not vary, so that it never counts."""
    varies_F = values_NF.max(axis=0) > values_NF.min(axis=0)
    return values_NF.mean(axis=0), np.where(varies_F, values_NF.std(axis=0), np.inf)


def _standardised(values_NF: Matrix, reference_NF: Matrix) -> Matrix:
    mean_F, scale_F = _location_and_scale(reference_NF)
    # Rounded far below any meaning, so that samples that differ by the order of a sum count as one point.
    scaled: Matrix = np.round((values_NF - mean_F) / scale_F, 9) + 0.0
    return scaled


def _features_that_vary(values_NF: Matrix) -> Matrix:
    """Standardised features that vary, or one column of zeros where none does."""
    _, scale_F = _location_and_scale(values_NF)
    varying_NF = _standardised(values_NF, values_NF)[:, np.isfinite(scale_F)]
    return varying_NF if varying_NF.shape[1] else np.zeros((len(values_NF), 1))


def _squared_distances(left_NF: Matrix, right_KF: Matrix) -> Matrix:
    distances: Matrix = ((left_NF[:, None, :] - right_KF[None, :, :]) ** 2).sum(axis=2)
    return distances


def _renumbered(labels: Labels, values_NF: Matrix) -> Labels:
    """The same clusters as 0, 1, ... in the order of their means, first feature first."""
    used, compact = np.unique(labels, return_inverse=True)
    means_KF = np.array([values_NF[compact == label].mean(axis=0) for label in range(len(used))])
    rank = np.empty(len(used), np.int64)
    rank[np.lexsort(np.round(means_KF, 9).T[::-1])] = np.arange(len(used))
    renumbered: Labels = rank[compact]
    return renumbered
