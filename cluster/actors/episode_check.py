"""Checks that a decoded episode is one that this run's learner can learn from.

The codec checks types and shapes. Anyone who can write to the replay server can store an episode of another tokenizer,
configuration or world, which would end the update, and every later one that gets it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cluster.configs.schema import Config
from grpo_core.advantages.grouping import fact_and_bins, required_facts, samples_of
from grpo_core.settings import GroupingSettings
from grpo_core.types import Episode, Turn

LARGEST_NUMBER = 1e6  # of a reward or log-probability; a reward in centres is below 40
TEMPERATURES = (1e-3, 1e3)
LARGEST_COUNT = 10**9  # of versions and phases


@dataclass(frozen=True, slots=True)
class EpisodeCheck:
    """What the learner needs of every episode."""

    task: str  # the world's name
    roles: tuple[str, ...]
    role_name: str
    outcomes: frozenset[str]  # figures that every episode has
    vocabulary: int  # token ids are below it
    context_length: int  # most tokens of a prompt and its completion
    num_generations: int  # episodes of a block
    returns: Literal["episode", "per_phase", "segment"]
    free_tokens: int | None  # most tokens of a turn that were sampled without a mask, before all others; None: any
    facts: frozenset[tuple[str, bool]]  # of every sample, and whether they must be numbers

    @classmethod
    def of(cls, config: Config, vocabulary: int) -> EpisodeCheck:
        """The check of a run whose policy has a vocabulary of this size."""
        world = config.world
        return cls(
            world.name,
            world.roles,
            world.role_name,
            frozenset(measure.outcome for measure in world.measures if not measure.only_evaluated),
            vocabulary,
            config.policy.context_length,
            config.rollout.num_generations,
            config.learner.returns,
            None if config.writes_free_text else config.inference.thinking_tokens,
            _needed_facts(config.grouping),
        )

    def fault(self, episode: Episode) -> str | None:
        """Return why the learner cannot use an episode; None if it can."""
        if episode.task != self.task:
            return f"it is of the world {episode.task!r}, and this run's is {self.task!r}"
        if episode.role not in self.roles:
            return f"the role {episode.role!r} is none of {', '.join(self.roles)}"
        if episode.block_size != self.num_generations:
            return f"it is of a block of {episode.block_size}, and rollout.num_generations is {self.num_generations}"
        if lacking := sorted(self.outcomes - episode.outcome.keys()):
            return f"its outcome lacks {lacking[0]}"
        numbers = [episode.reward, *episode.reward_parts.values(), *episode.outcome.values()]
        if max(map(abs, numbers)) > LARGEST_NUMBER:
            return f"a reward or outcome is over {LARGEST_NUMBER:g}"
        # All turns at once: turn by turn it would take longer than to decode them.
        if self._fault_of(episode.turns):
            return next((f"turn {i}: {fault}" for i, t in enumerate(episode.turns) if (fault := self._fault_of([t]))))
        return self._lacking_fact(episode)

    def _fault_of(self, turns: Sequence[Turn]) -> str | None:
        for turn in turns:
            tokens = len(turn.prompt_ids) + len(turn.completion_ids)
            if not len(turn.prompt_ids) or not len(turn.completion_ids) or tokens > self.context_length:
                return f"a prompt and completion of {tokens} tokens, and policy.context_length is {self.context_length}"
            if not TEMPERATURES[0] <= turn.temperature <= TEMPERATURES[1]:
                return f"a temperature of {turn.temperature}"
            if max(turn.policy_version, turn.elapsed_phases) > LARGEST_COUNT or abs(turn.reward) > LARGEST_NUMBER:
                return "a version, reward or number of phases that no game has"
        if not turns:
            return None
        ids = [(turn.prompt_ids, turn.completion_ids, turn.admissible_ids) for turn in turns]
        largest = int(np.concatenate([array for arrays in ids for array in arrays]).max())
        if largest >= self.vocabulary:
            return f"token {largest}, and the policy's vocabulary has {self.vocabulary}"
        logprobs = np.concatenate([turn.logprobs for turn in turns])
        if logprobs.max() > 1e-3 or logprobs.min() < -LARGEST_NUMBER:
            return "a log-probability that is none"
        if self.free_tokens is not None and any(_free_tokens(turn) > self.free_tokens for turn in turns):
            return "a token without a mask where this run has masks"
        return None if _samples_are_admissible(turns) else "a sampled token that was not admissible, or twice"

    def _lacking_fact(self, episode: Episode) -> str | None:
        for sample in samples_of((episode,), self.returns, self.role_name):
            for name, is_number in self.facts:
                if name not in sample.facts:
                    return f"it lacks the fact {name}, which [grouping] names"
                if is_number and isinstance(sample.facts[name], str):
                    return f"its fact {name}, of which [grouping] makes bins or clusters, is text"
        return None


def _needed_facts(grouping: GroupingSettings) -> frozenset[tuple[str, bool]]:
    facts = required_facts(grouping)
    parts = [fact_and_bins(part) for expression in facts for part in expression.split("+")]
    numbers = {name for name, bins in parts if bins is not None}.union(grouping.cluster_features)
    return frozenset((name, name in numbers) for names in facts.values() for name in names)


def _free_tokens(turn: Turn) -> int:
    """How many tokens, counted from the first, end with the last one that was sampled without a mask."""
    if not len(turn.admissible_offsets):
        return int(turn.trained_mask.sum())
    without = np.flatnonzero(np.diff(turn.admissible_offsets) == 0)
    return int(without[-1]) + 1 if len(without) else 0


def _samples_are_admissible(turns: Sequence[Turn]) -> bool:
    """Whether each token that was sampled under a mask is among its admissible ids, once."""
    bound = [turn for turn in turns if len(turn.admissible_offsets)]
    if not bound:
        return True
    sampled = np.concatenate([turn.completion_ids[turn.trained_mask] for turn in bound])
    counts = np.concatenate([np.diff(turn.admissible_offsets) for turn in bound])
    position = np.repeat(np.arange(len(sampled)), counts)
    found = position[np.concatenate([turn.admissible_ids for turn in bound]) == sampled[position]]
    return bool((np.bincount(found, minlength=len(sampled)) == (counts > 0)).all())
