"""Results that actors return to the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opponents.matchmaking.lineup import LineupBlock
from opponents.ratings.game_score import GameScore
from services.metrics.rolling_windows import RoleSummary


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What the driver shows and records for one update."""

    version: int  # after the update
    metrics: Mapping[str, float]  # catalogue keys
    roles: Mapping[str, RoleSummary | None]
    episodes: int  # learned from
    stale_episodes: int  # delivered but too old; not used unless there was nothing else
    tokens: int  # prompt and completion tokens learned from
    busy_s: float
    defective_orders: int  # of the learner's own turns
    truncated: int  # decisions cut off at the length limit
    weight_bytes: int  # of the published version
    buffer: Mapping[str, float]  # the replay buffer's counters after it took the episodes
    topped_up_episodes: int = 0  # episodes that replaced those of zero-variance groups
    topped_up: Mapping[str, int] = field(default_factory=dict)  # extra blocks of each role, all updates so far
    role_episodes: Mapping[str, int] = field(default_factory=dict)  # learned from, by role
    memory: Mapping[str, float] = field(default_factory=dict)  # of the replay server: bytes used, and their limit
    nonfinite: tuple[str, ...] = ()  # metrics left out because they were not finite


@dataclass(frozen=True, slots=True)
class Shortage:
    """Whole blocks to replace samples of zero-variance groups in an update, by role; empty when none are needed."""

    missing: Mapping[str, int]
    allowed: Mapping[str, int]  # the part of them that learner.top_up_episodes allows


@dataclass(frozen=True, slots=True)
class BlockReport:
    """A played block; games that the buffer already held from an earlier process are neither counted nor scored."""

    block: LineupBlock
    games: int
    scores: tuple[GameScore, ...] = ()  # one a game of several seats; "learner" sits on its seat and on self-play seats
    outcomes: tuple[Mapping[str, float], ...] = ()  # one a game: the learner's figures
