"""The data types that all packages share: turns, episodes, groups and batches. They are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
KeyValue = str | int


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A published policy: the learner's update count (0 = initial weights) and the weights' SHA-256."""

    number: int
    checksum: str


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One decision of a learner seat: its prompt, its completion and the sampling distribution.

    Axes: P prompt tokens, T completion tokens, S sampled tokens (``trained_mask.sum()``), A admissible ids.
    """

    prompt_ids: IntArray  # (P,)
    completion_ids: IntArray  # (T,) everything written, forced tokens and the end id included
    logprobs: FloatArray  # (T,) behaviour log-probability under mask and temperature; 0 where forced
    trained_mask: BoolArray  # (T,) True where the learner had a choice and sampled
    # Admissible ids of sampled token s, ascending: admissible_ids[admissible_offsets[s]:admissible_offsets[s + 1]].
    # No ids: the whole vocabulary was admissible, as in a thought. Both are empty where that holds for all tokens.
    admissible_ids: IntArray  # (A,)
    admissible_offsets: IntArray  # (S + 1,) or (0,)
    policy_version: int  # the learner's version whose weights sampled this turn
    temperature: float  # of the sampling; > 0
    phase: str  # the engine's short phase name, e.g. "S1901M"
    # Shaped reward from this decision to the seat's next one (or the end of its game), discounted to this phase.
    reward: float = 0.0
    elapsed_phases: int = 1  # game phases until the seat's next decision (or the end); the discount's clock
    # Known before this turn: phase, segment, own_centers, alliance.
    keys: Mapping[str, KeyValue] = field(default_factory=dict)
    defects: tuple[str, ...] = ()  # what went wrong: truncated, unparsed or illegal orders


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One learner seat's game as training data."""

    episode_id: str  # unique in a run: "<block_id>/<member>"
    task: str  # "diplomacy"
    role: str  # the country, e.g. "FRANCE"; a baseline never mixes roles
    block_id: str  # the line-up block this game belongs to
    block_size: int  # how many episodes that block yields when complete
    keys: Mapping[str, KeyValue]  # known before the game: country, lineup (digest of seats, opponents, versions)
    turns: tuple[Turn, ...]
    reward: float  # the episode's scalar return under the configured mix of parts
    reward_parts: Mapping[str, float]  # every component, unweighted, for the log
    outcome: Mapping[str, float]  # after the game: centers, solo, survived, top, draw, final_year, phases
    seed: int

    @property
    def oldest_version(self) -> int:
        """The oldest policy version that sampled one of the turns; staleness counts from it."""
        return min((turn.policy_version for turn in self.turns), default=0)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens over all turns."""
        return sum(len(turn.prompt_ids) + len(turn.completion_ids) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that are compared with one another, as indices of episodes or of turns in episode order."""

    key: tuple[KeyValue, ...]
    level: str  # the key expression that formed it, e.g. "country+phase"
    members: tuple[int, ...]  # the samples whose returns make the baseline
    decided: tuple[int, ...]  # the members whose advantage this group decides; the others have a finer group


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The episodes of one update."""

    episodes: tuple[Episode, ...]
    learner_version: int  # before the update; staleness = learner_version - episode.oldest_version
