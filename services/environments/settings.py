"""The sections of the configuration that every world extends: evaluation and imitation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from grpo_core.section import Settings, Texts


class NoSettings(Settings):
    """The training games; this world has nothing to set."""


class EvaluationSettings(Settings):
    """Evaluations: games against fixed anchors, all roles in rotation."""

    against: Texts = Field(("random",), description="Bots that fill the other seats, one evaluation each")
    temperature: float = Field(1.0, ge=0, description="Sampling temperature of evaluation games; 0: greedy")
    every: int = Field(0, ge=0, description="Updates between evaluations besides the first and last; 0: none")
    final_against: Texts = Field((), description="Further bots met by the trained policy only")

    @property
    def role_games(self) -> int:
        """Games that the policy plays in each role against each anchor."""
        raise NotImplementedError


class GamesPerRole(EvaluationSettings):
    """Evaluations: games against fixed anchors, all roles in rotation."""

    games_per_role: int = Field(10, ge=1, le=10**6, description="Games the policy plays in each role")

    @property
    def role_games(self) -> int:
        """``games_per_role``."""
        return self.games_per_role


class ImitationSettings(Settings):
    """Games of a teacher that the policy imitates before it plays its own."""

    games: int = Field(
        0, ge=0, le=10**6, description="Games that a teacher plays and the policy imitates before the first update"
    )
    teacher: str = Field("", description="Bot that is imitated")
    epochs: int = Field(4, ge=1, le=10_000, description="Passes over all decisions")
    learning_rate: float = Field(2e-3, gt=0, description="Highest step size of AdamW; Muon's is 20 times it")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw",
        description="adamw, or muon for the matrices of the blocks and adamw for the rest: fewer steps to the same "
        "likelihood",
    )
    decisions_per_step: int = Field(128, ge=1, description="Decisions of one optimizer step")
    held_out: float = Field(0.05, gt=0, lt=1, description="Share of the games that is only measured, not learned from")
    processes: int = Field(
        2,
        ge=1,
        le=1024,
        description="Processes that play the games, one CPU each, and compute gradients; with a GPU the first one "
        "computes there, from the games of all",
    )

    control: Literal["none", "same", "fresh"] = Field(
        "none",
        description="After training, let the policy that only imitated go on imitating for as long as the training "
        "took, and evaluate it as the control; same: the same games again; fresh: further games of the teacher",
    )

    @property
    def wanted(self) -> bool:
        """Whether there is anything to imitate."""
        return bool(self.games)
