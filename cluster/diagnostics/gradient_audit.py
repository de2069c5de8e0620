"""Bias and noise of a run's gradient under each way of grouping, from its last batch and checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cluster.actors.audit_batch import last_batch_path, load_last_batch
from cluster.configs.loader import load_config
from cluster.diagnostics.groups_audit import find_leaks
from cluster.errors import RunError
from cluster.runs.folder import RunFolder, grouping_in_force
from cluster.runs.progress_bars import AddBar, duration_text
from grpo_core.advantages.explained_variance import candidate_keys
from grpo_core.advantages.grouping import turn_facts_of
from grpo_core.advantages.method import BATCH_MEAN, NO_BASELINE, AdvantageMethod, reference_advantages
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import TrainingTurn, training_turns
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.checkpoints.store import load_checkpoint
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.gradients.bootstrap import MIN_BLOCKS, WayQuality, block_gradients, bootstrap_gradients
from grpo_core.gradients.quality import turn_scores
from grpo_core.models.pretrained import load_model
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, FloatArray

MAX_TURNS = 4000  # whose gradients are taken; nearly two minutes for a small policy
TIMED_TURNS = 20  # whose time the rest is estimated from
RESAMPLES = 1000
NONE, BATCH, CHAIN = str(NO_BASELINE), str(BATCH_MEAN), "declared chain"


class NoGradientsError(RunError):
    """The run has too little data for gradients; the rest of the audit does not need them."""


@dataclass(frozen=True, slots=True)
class GradientAudit:
    """Bias and noise of one batch's gradient under each way of grouping."""

    checkpoint: int  # the version whose gradient was taken
    batch_version: int  # the learner's version before it learned from the batch
    blocks: int
    turns: int
    turns_of_batch: int  # with a choice in them
    reference: tuple[str, ...]  # keys of the reference's baseline, from fine to coarse
    reference_noise: float  # share of the reference's squared length that is noise
    ways: Mapping[str, WayQuality]


@dataclass(frozen=True, slots=True, eq=False)
class _Advantages:
    """Advantages (samples,) by way, and those of the same ways with each sample's own episode left out."""

    ways: dict[str, FloatArray]
    left_out: dict[str, FloatArray]
    reference: FloatArray
    reference_keys: tuple[str, ...]
    sample_of_turn: NDArray[np.int64]  # (turns,)


def audit_gradients(
    run_dir: Path,
    best_keys: Sequence[str],
    stage: AddBar,
    *,
    max_turns: int = MAX_TURNS,
    seed: int = 0,
    say: Callable[[str], object] | None = None,
) -> GradientAudit:
    """Compute the advantages of the run's last batch in every way, and take every turn's gradient.

    The ways are no baseline, the batch's mean, the run's declared chain (unscaled, unweighted, with empty running
    baselines), each declared key and each of ``best_keys`` (undeclared, the best first), with ``country`` behind it.
    The weights are those before the update if that checkpoint still exists, else the newest ones, which differ little.
    Gradients are taken of whole blocks drawn at random, at least 4, up to ``max_turns``; baselines are always those of
    the whole batch. ``say`` gets one line about how long it will take, once the first gradients have been timed.

    Raises NoGradientsError if there is no batch or checkpoint, or too little in them; RunError, CheckpointError or
    ConfigError if a file of the run is damaged.
    """
    config = load_config(RunFolder(run_dir).config)
    batch, version = _last_batch(run_dir)
    if config.policy.specialists:
        raise NoGradientsError("they are of one policy for all countries, and this run has a specialist for each")
    grouping = grouping_in_force(run_dir, config.grouping, batch.learner_version + 1)
    advantages = _advantages(batch, config.learner, grouping, best_keys)
    turns = training_turns(batch.episodes, batch.learner_version)
    chosen, block_of_turn = _whole_blocks(batch, turns, max_turns, seed)
    scores = _scores(RunFolder(run_dir).checkpoints / str(version), chosen, stage, seed, config.learner.threads, say)
    sample_of_turn = advantages.sample_of_turn[[turn.turn for turn in chosen]]

    def by_block(values: FloatArray) -> NDArray[np.float64]:
        return block_gradients(scores, values[sample_of_turn], block_of_turn)

    try:
        found = bootstrap_gradients(
            {name: by_block(each) for name, each in advantages.ways.items()},
            {name: by_block(each) for name, each in advantages.left_out.items()},
            by_block(advantages.reference),
            np.bincount(block_of_turn),
            yardstick=BATCH,
            resamples=RESAMPLES,
            seed=seed,
        )
    except ValueError as error:
        raise NoGradientsError(str(error)) from None
    return GradientAudit(
        checkpoint=version,
        batch_version=batch.learner_version,
        blocks=found.blocks,
        turns=found.turns,
        turns_of_batch=len(turns),
        reference=advantages.reference_keys,
        reference_noise=found.reference_noise,
        ways=found.ways,
    )


def _last_batch(run_dir: Path) -> tuple[Batch, int]:
    """The run's last batch, and the checkpoint version nearest to the weights before its update."""
    folder = RunFolder(run_dir)
    batch = load_last_batch(folder)
    if batch is None:
        name = last_batch_path(folder).relative_to(run_dir)
        raise NoGradientsError(f"the run has no {name}; training writes it with every checkpoint")
    versions = checkpoint_versions(run_dir)
    if not versions:
        raise NoGradientsError("the run has no checkpoint")
    return batch, batch.learner_version if batch.learner_version in versions else versions[-1]


def _scores(
    checkpoint: Path,
    turns: Sequence[TrainingTurn],
    stage: AddBar,
    seed: int,
    threads: int,
    say: Callable[[str], object] | None,
) -> FloatArray:
    """Sketched gradients of the turns' log-probabilities under a checkpoint's weights, with the learner's threads.

    Small models gain nothing from more, and on a busy machine threads that wait for one another take thirty times as
    long.
    """
    load_checkpoint(checkpoint)  # compares every file with its checksum
    model, _ = load_model(checkpoint)
    use_fast_layers(model)
    advance = _telling_how_long(stage("taking every turn's gradient", len(turns)), len(turns), say or (lambda _: None))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return turn_scores(model, turns, coordinates=0, seed=seed, advance=advance).sketch
    finally:
        torch.set_num_threads(before)


def _telling_how_long(
    advance: Callable[[int], None], turns: int, say: Callable[[str], object]
) -> Callable[[int], None]:
    """Let ``advance`` also say how long the turns take, once ``TIMED_TURNS`` after the first one are timed."""
    began, done = 0.0, 0

    def timed(more: int) -> None:
        nonlocal began, done
        done += more
        if done == 1:  # the first one is slower than the others
            began = time.monotonic()
        elif done == 1 + TIMED_TURNS and turns > done:
            each = (time.monotonic() - began) / TIMED_TURNS
            say(f"{turns - done:,} more turns of {1000 * each:.0f} ms: {duration_text((turns - done) * each)}")
        advance(more)

    return timed


def _advantages(
    batch: Batch, learner: LearnerSettings, grouping: GroupingSettings, best_keys: Sequence[str]
) -> _Advantages:
    size = grouping.min_group_size
    unscaled = grouping.model_copy(update={"scale_rewards": "none", "group_weights": "none"})
    as_run = compute_advantages(batch.episodes, learner, unscaled, {})
    samples, returns = as_run.samples, as_run.returns
    grouping = grouping.model_copy(update={"keys": as_run.grouping.keys})
    known = candidate_keys(samples, grouping)
    leaks = find_leaks(
        (*best_keys[:1], *grouping.keys), grouping.cluster_features, turn_facts_of(samples), grouping.role_name
    )
    undeclared = [key for key in best_keys if key in known and key not in grouping.keys]
    ways = {NONE: returns, BATCH: BATCH_MEAN.advantages(samples, returns)}
    left_out = {NONE: returns, BATCH: replace(BATCH_MEAN, leave_one_out=True).advantages(samples, returns)}
    if len(grouping.keys) > 1:
        ways[CHAIN] = as_run.advantages
        if not grouping.shrinkage and not leaks.keys() & set(grouping.keys):
            left_out[CHAIN] = reference_advantages(grouping.keys, samples, returns, min_group_size=size)
    for key in (*grouping.keys, *undeclared):
        method = AdvantageMethod(keys=(key,), leave_one_out=grouping.baseline == "leave_one_out")
        ways[key] = method.advantages(samples, returns, min_group_size=size)
        if key not in leaks:
            left_out[key] = reference_advantages((key, grouping.role_name), samples, returns, min_group_size=size)
    # The reference's keys: the best one, then the declared ones, then the country; none made from an outcome.
    keys = [key for key in (*best_keys[:1], *grouping.keys) if key not in leaks]
    reference_keys = tuple(dict.fromkeys((*keys, grouping.role_name)))
    reference = reference_advantages(reference_keys, samples, returns)
    return _Advantages(ways, left_out, reference, reference_keys, as_run.sample_of_turn)


def _whole_blocks(
    batch: Batch, turns: Sequence[TrainingTurn], max_turns: int, seed: int
) -> tuple[list[TrainingTurn], NDArray[np.int64]]:
    """Turns of blocks drawn at random, and the number of each one's block."""
    names = np.array([batch.episodes[turn.episode].block_id for turn in turns], dtype=np.str_)
    blocks, sizes = np.unique(names, return_counts=True)
    if len(blocks) < MIN_BLOCKS:
        raise NoGradientsError(f"its last batch has {len(blocks)} line-up blocks, and it takes {MIN_BLOCKS}")
    order = np.random.default_rng(seed).permutation(len(blocks))
    fitting = int((np.cumsum(sizes[order]) <= max_turns).sum())
    drawn = blocks[order[: max(MIN_BLOCKS, fitting)]]
    kept = np.flatnonzero(np.isin(names, drawn))
    return [turns[index] for index in kept], np.unique(names[kept], return_inverse=True)[1].astype(np.int64)
