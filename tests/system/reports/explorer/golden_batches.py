"""What grpo_core itself makes of random batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_core.advantages.group_baseline import RunningBaseline, group_advantages
from grpo_core.advantages.group_weights import GroupProgress
from grpo_core.advantages.grouping import CLUSTER_FACTS
from grpo_core.advantages.key_choice import NOTHING_KNOWN, after_batch
from grpo_core.advantages.pipeline import AdvantageBatch, AdvantageMemory, compute_advantages
from grpo_core.batching.minibatches import largest
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.settings import CHOOSE, GroupingSettings, LearnerSettings, Normalizer
from grpo_core.types import Episode, Group, Turn
from tests.system.reports.explorer.golden_losses import expected_losses, random_tokens
from tests.system.reports.explorer.random_batches import (
    CLUSTERED,
    NORMALIZERS,
    STRATEGIES,
    one_of,
    random_batch,
    random_grouping,
    random_learner,
)

Plain = dict[str, Any]

CLUSTERS_EVERY = 11  # batches, because clusters take far longer than everything else


@dataclass(frozen=True, slots=True)
class GoldenBatch:
    """A batch with everything that the browser is given for it, and what it must find."""

    name: str
    given: Plain
    expected: Plain


def golden_batch(number: int) -> GoldenBatch:
    """The random batch of that number; its name says which."""
    rng = np.random.default_rng(number)
    learner = random_learner(rng)
    clustered = number % CLUSTERS_EVERY == 0
    usable = (
        CLUSTERED if clustered else [each for each in STRATEGIES if learner.returns != "episode" or not each.of_turns]
    )
    strategy = usable[number // CLUSTERS_EVERY % len(usable)] if clustered else one_of(rng, usable)
    role_name = one_of(rng, ("country", "country", "chair"))
    grouping = random_grouping(rng, strategy, role_name)
    batch = random_batch(rng, role_name)
    episodes = episodes_of(batch)
    running = {role: RunningBaseline(*numbers) for role, numbers in batch["running"].items()}
    memory = AdvantageMemory(progress={name: GroupProgress(*each) for name, each in batch["progress"].items()})
    result = compute_advantages(episodes, learner, grouping, running, memory)
    _add_clusters(batch, result)
    tokens = random_tokens(rng)
    step = {"maxCompletionLength": learner.max_completion_length, "batchTokensPerStep": float(rng.uniform(1, 500))}
    share = float(rng.uniform(0.01, 1))
    expected = _expected_advantages(result)
    expected["ungrouped"] = _ungrouped(result, grouping)
    expected["largest"] = largest(result.turn_advantages, share).tolist()
    expected["token_weights"] = _expected_token_weights(batch, learner, step)
    expected["losses"] = expected_losses(tokens, learner)
    chain = grouping.model_copy(update={"keys": (CHOOSE,), "choices": (grouping.keys,)})
    expected["chain"] = after_batch(NOTHING_KNOWN, result.samples, result.returns, chain, running).explained(
        grouping.keys
    )
    given = {
        "batch": batch,
        "settings": {"learner": learner.model_dump(mode="json"), "grouping": grouping.model_dump(mode="json")},
        "tokens": tokens,
        "step": step,
        "share": share,
    }
    return GoldenBatch(f"batch {number} ({' > '.join(grouping.keys)}, {learner.returns})", given, expected)


def episodes_of(batch: Mapping[str, Any]) -> tuple[Episode, ...]:
    """The batch's episodes as the learner gets them, with made-up tokens."""
    of_episodes, of_turns = batch["episodes"], batch["turns"]
    turns = [_turn(of_turns, turn) for turn in range(len(of_turns["reward"]))]
    ends = np.cumsum(of_episodes["turns"]).tolist()
    return tuple(
        Episode(
            episode_id=f"b/{index}",
            task=of_episodes["task"][index],
            role=role,
            block_id="b",
            block_size=len(ends),
            keys=_row(of_episodes["facts"], index),
            turns=tuple(turns[ends[index] - of_episodes["turns"][index] : ends[index]]),
            reward=of_episodes["reward"][index],
            reward_parts={},
            outcome=_row(of_episodes["outcome"], index),
            seed=0,
        )
        for index, role in enumerate(of_episodes["role"])
    )


def _turn(of_turns: Mapping[str, Any], index: int) -> Turn:
    trained = of_turns["trained"][index]
    ids = np.zeros(trained + 1, np.int32)
    return Turn(
        prompt_ids=ids,
        completion_ids=ids,
        logprobs=np.zeros(len(ids), np.float32),
        trained_mask=np.arange(len(ids)) < trained,
        admissible_ids=np.zeros(0, np.int32),
        admissible_offsets=np.zeros(0, np.int32),
        policy_version=0,
        temperature=1.0,
        phase=str(index),
        reward=of_turns["reward"][index],
        elapsed_phases=of_turns["elapsed"][index],
        keys=_row(of_turns["facts"], index),
    )


def _row(columns: Mapping[str, Sequence[Any]], index: int) -> Plain:
    return {name: column[index] for name, column in columns.items() if column[index] is not None}


def _add_clusters(batch: Plain, result: AdvantageBatch) -> None:
    """Put the clusters that the pipeline made among the facts of the episodes."""
    for name in CLUSTER_FACTS:
        of_episode = {sample.episode: sample.facts[name] for sample in result.samples if name in sample.facts}
        if of_episode:
            column = [of_episode.get(index) for index in range(len(batch["episodes"]["role"]))]
            batch["episodes"]["facts"][name] = column


def _expected_advantages(result: AdvantageBatch) -> Plain:
    return {
        "roles": [sample.role for sample in result.samples],
        "owners": [sample.episode for sample in result.samples],
        "returns": result.returns.tolist(),
        "groups": [
            {"key": list(each.key), "level": each.level, "members": list(each.members), "decided": list(each.decided)}
            for each in result.groups
        ],
        "zero_variance": [each.zero_variance for each in result.group_statistics],
        "means": [each.mean for each in result.group_statistics],
        "deviations": [each.std for each in result.group_statistics],
        "shares": [each.share for each in result.group_statistics],
        "baselines": [value for each in result.group_statistics for value in each.baselines],
        "advantages": result.advantages.tolist(),
        "weights": dict(result.group_weights),
        "sample_of_turn": result.sample_of_turn.tolist(),
    }


def _expected_token_weights(batch: Plain, learner: LearnerSettings, step: Plain) -> dict[str, list[float]]:
    owners = np.repeat(np.arange(len(batch["episodes"]["turns"])), batch["episodes"]["turns"]).tolist()
    normalizers: dict[str, Normalizer] = {each: each for each in NORMALIZERS}
    return {
        name: turn_token_weights(
            normalizer,
            batch["turns"]["trained"],
            owners,
            max_completion_length=step["maxCompletionLength"],
            batch_tokens_per_step=step["batchTokensPerStep"],
        ).tolist()
        for name, normalizer in (normalizers | {"named": learner.named_normalizer}).items()
    }


def _ungrouped(result: AdvantageBatch, grouping: GroupingSettings) -> list[float]:
    """The advantages of all samples in one group."""
    everything = tuple(range(len(result.samples)))
    advantages, _ = group_advantages(
        result.returns,
        [Group(("all",), "batch", everything, everything)] if everything else [],
        {},
        scale=grouping.scale_rewards,
        leave_one_out=grouping.baseline == "leave_one_out",
        episodes=np.array([sample.episode for sample in result.samples], np.int64),
    )
    return advantages.tolist()
