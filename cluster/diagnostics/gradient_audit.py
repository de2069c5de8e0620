"""What each way of grouping does to a run's own gradient, from the batch and the checkpoint that it kept last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cluster.actors.last_batch import last_batch_path, load_last_batch
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.diagnostics.groups_audit import find_leaks
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.progress_bars import AddBar
from grpo_core.advantages.explained_variance import candidate_keys
from grpo_core.advantages.grouping import ROLE_FACT
from grpo_core.advantages.method import BATCH_MEAN, NO_BASELINE, AdvantageMethod, reference_advantages
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import TrainingTurn, training_turns
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.checkpoints.store import load_checkpoint
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.gradients.bootstrap import MIN_BLOCKS, WayQuality, block_gradients, bootstrap_gradients
from grpo_core.gradients.quality import turn_scores
from grpo_core.models.pretrained import load_model
from grpo_core.types import Batch, FloatArray
from opponents.settings import TURN_FACTS

MAX_TURNS = 4000  # of whose gradients a table is made; near two minutes of a small policy
RESAMPLES = 1000
NONE, BATCH, CHAIN = str(NO_BASELINE), str(BATCH_MEAN), "declared chain"


class NoGradientsError(RunError):
    """The run's own data cannot tell; the message says why. The rest of the audit needs none of it."""


@dataclass(frozen=True, slots=True)
class GradientAudit:
    """Bias and noise of one batch's gradient under each way of grouping."""

    checkpoint: int  # the version whose gradient was taken
    batch_version: int  # the learner's before it learned from the batch
    blocks: int
    turns: int
    turns_of_batch: int  # with a choice in them
    reference: tuple[str, ...]  # keys of the reference's baseline, from fine to coarse
    reference_noise: float  # share of the reference's squared length that is noise
    ways: Mapping[str, WayQuality]


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Advantages (samples,) by way, and of the same ways with the judged episode left out."""

    ways: dict[str, FloatArray]
    left_out: dict[str, FloatArray]
    reference: FloatArray
    sample_of_turn: NDArray[np.int64]  # (turns,)


def audit_gradients(
    run_dir: Path, best_keys: Sequence[str], stage: AddBar, *, max_turns: int = MAX_TURNS, seed: int = 0
) -> GradientAudit:
    """Judge the run's last batch in every way and take every turn's gradient under the run's weights.

    The ways are no baseline, the batch's mean, the declared chain as the run judges by it (unscaled, unweighed; the
    running baseline knows nothing), each declared key and each of ``best_keys``, with ``country`` behind it. The
    weights are those before the update where that checkpoint is still there, else the newest ones: the policy has
    hardly moved in between. Baselines are the whole batch's also where only some of its blocks fit ``max_turns``.

    Args:
        run_dir: the run's folder.
        best_keys: undeclared key expressions that promise most, the best first.
        stage: hears how far it is.
        max_turns: of whole blocks drawn at random, but at least 4 blocks.
        seed: of that draw, of the sketch and of the bootstrap.

    Raises:
        NoGradientsError: there is no batch or checkpoint, or too little in them.
        RunError, CheckpointError, ConfigError: a file of the run is damaged.
    """
    folder = RunFolder(run_dir)
    batch = load_last_batch(folder)
    if batch is None:
        name = last_batch_path(folder).relative_to(run_dir)
        raise NoGradientsError(f"the run has no {name}; training writes it with every checkpoint")
    versions = checkpoint_versions(run_dir)
    if not versions:
        raise NoGradientsError("the run has no checkpoint")
    version = batch.learner_version if batch.learner_version in versions else versions[-1]
    config = load_config(folder.config)
    if config.policy.specialists:
        raise NoGradientsError("they are of one policy for all countries, and this run has a specialist for each")
    reference_keys = _reference_keys(config, best_keys)
    judged = _judge(batch, config, best_keys, reference_keys)
    turns = training_turns(batch.episodes, batch.learner_version)
    chosen, block_of_turn = _whole_blocks(batch, turns, max_turns, seed)
    scores = _scores(folder.checkpoints / str(version), chosen, stage, seed)
    sample_of_turn = judged.sample_of_turn[[turn.turn for turn in chosen]]

    def by_block(advantages: FloatArray) -> NDArray[np.float64]:
        return block_gradients(scores, advantages[sample_of_turn], block_of_turn)

    try:
        found = bootstrap_gradients(
            {name: by_block(each) for name, each in judged.ways.items()},
            {name: by_block(each) for name, each in judged.left_out.items()},
            by_block(judged.reference),
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
        reference=reference_keys,
        reference_noise=found.reference_noise,
        ways=found.ways,
    )


def _scores(checkpoint: Path, turns: Sequence[TrainingTurn], stage: AddBar, seed: int) -> FloatArray:
    """Sketched gradients of the turns' log-probabilities under a checkpoint's weights."""
    load_checkpoint(checkpoint)  # compares every file with its checksum
    model, _ = load_model(checkpoint)
    use_fast_layers(model)
    advance = stage("taking every turn's gradient", len(turns))
    return turn_scores(model, turns, coordinates=0, seed=seed, advance=advance).sketch


def _reference_keys(config: Config, best_keys: Sequence[str]) -> tuple[str, ...]:
    """The best key that may judge, then the declared ones, then the country."""
    keys = (*best_keys[:1], *config.grouping.keys)
    leaks = find_leaks(keys, config.grouping.cluster_features, TURN_FACTS)
    return tuple(dict.fromkeys((*(key for key in keys if key not in leaks), ROLE_FACT)))


def _judge(batch: Batch, config: Config, best_keys: Sequence[str], reference_keys: tuple[str, ...]) -> _Judged:
    grouping = config.grouping
    size = grouping.min_group_size
    unscaled = grouping.model_copy(update={"scale_rewards": "none", "group_weights": "none"})
    judgement = compute_advantages(batch.episodes, config.learner, unscaled, {})
    samples, returns = judgement.samples, judgement.returns
    known = candidate_keys(samples, grouping)
    leaks = find_leaks(grouping.keys, grouping.cluster_features, TURN_FACTS)
    undeclared = [key for key in best_keys if key in known and key not in grouping.keys]
    ways = {NONE: returns, BATCH: BATCH_MEAN.advantages(samples, returns)}
    left_out = {NONE: returns, BATCH: replace(BATCH_MEAN, leave_one_out=True).advantages(samples, returns)}
    if len(grouping.keys) > 1:
        ways[CHAIN] = judgement.advantages
        if not grouping.shrinkage and not leaks:
            left_out[CHAIN] = reference_advantages(grouping.keys, samples, returns, min_group_size=size)
    for key in (*grouping.keys, *undeclared):
        method = AdvantageMethod(keys=(key,), leave_one_out=grouping.baseline == "leave_one_out")
        ways[key] = method.advantages(samples, returns, min_group_size=size)
        if key not in leaks:
            left_out[key] = reference_advantages((key, ROLE_FACT), samples, returns, min_group_size=size)
    return _Judged(ways, left_out, reference_advantages(reference_keys, samples, returns), judgement.sample_of_turn)


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
