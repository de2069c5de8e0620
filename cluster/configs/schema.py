"""The configuration: one section a model, TOML in, resolved TOML out, unknown keys refused by name."""

from __future__ import annotations

import hashlib

from pydantic import model_validator

from cluster.configs.checks import (
    check_episode_counts,
    check_gpus,
    check_group_keys,
    check_players,
    check_prompts,
    check_specialists,
)
from cluster.configs.sections import (
    EvaluationSettings,
    ImitationSettings,
    RolloutSettings,
    RunSettings,
    TrainingSettings,
)
from grpo_core.section import Settings
from grpo_core.settings import AlignmentSettings, GroupingSettings, PolicySettings
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rewards import check_weights
from services.settings import GameSettings, InferenceSettings, MetricsSettings, RedisSettings


class Config(Settings):
    """The whole configuration of a run."""

    run: RunSettings = RunSettings()
    game: GameSettings = GameSettings()
    policy: PolicySettings = PolicySettings()
    inference: InferenceSettings = InferenceSettings()
    rollout: RolloutSettings = RolloutSettings()
    opponents: OpponentsSettings = OpponentsSettings()
    redis: RedisSettings = RedisSettings()
    grouping: GroupingSettings = GroupingSettings()
    imitation: ImitationSettings = ImitationSettings()
    learner: TrainingSettings = TrainingSettings()
    alignment: AlignmentSettings = AlignmentSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    metrics: MetricsSettings = MetricsSettings()

    @model_validator(mode="after")
    def _check_sections_agree(self) -> Config:
        check_episode_counts(self.learner, self.rollout)
        check_prompts(self.policy, self.inference)
        check_weights(self.game.reward)
        check_group_keys(self.grouping, self.learner, self.game.reward)
        check_players(self.imitation, self.opponents, self.evaluation)
        check_gpus(self.rollout, self.inference.tensor_parallel_size, self.learner.gpus)
        if self.policy.specialists:
            check_specialists(self.grouping, self.alignment, self.opponents)
        return self

    @property
    def policies_per_version(self) -> int:
        """The learner's policies: one, or a specialist for each power."""
        return len(POWERS) if self.policy.specialists else 1

    @property
    def digest(self) -> str:
        """Short SHA-256 of the resolved configuration."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]
