"""Settings of the table: who the learner plays against."""

from __future__ import annotations

from pydantic import Field

from grpo_core.settings import Settings

# What is known before a game, and before a turn of it: the facts that group keys can be made of.
EPISODE_FACTS = ("country", "lineup")
TURN_FACTS = ("phase", "segment", "own_centers", "alliance")


class OpponentsSettings(Settings):
    """The population and how line-ups are drawn from it."""

    members: dict[str, float] = Field(
        default_factory=lambda: {"random": 1.0},
        description="Members of the population and how often each is drawn: hold, random, greedy, dumbbot, snapshots",
    )
    snapshot_every: int = Field(
        0, ge=0, description="Updates between frozen snapshots of the learner in the population; 0: none"
    )
    max_snapshots: int = Field(8, ge=1, description="Newest snapshots that may be drawn; older ones stay on file")
