"""The configuration: one section a model, TOML in, resolved TOML out, unknown keys refused by name."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field, model_validator

from grpo_core.advantages.grouping import required_facts
from grpo_core.advantages.returns import EXPECTED_RETURN_FACT
from grpo_core.errors import GroupingError
from grpo_core.settings import (
    OUTCOME_KEYS,
    AlignmentSettings,
    GroupingSettings,
    LearnerSettings,
    PolicySettings,
    Settings,
)
from opponents.bots.registry import BOT_NAMES
from opponents.settings import EPISODE_FACTS, REMOTE_PREFIX, TURN_FACTS, OpponentsSettings, unknown_chat_player
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rewards import check_weights
from services.settings import GameSettings, InferenceSettings, MetricsSettings, RedisSettings


class RunSettings(Settings):
    """One run: its name, its seed and the machine it may use."""

    name: str = Field("run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="Folder of the run under runs/")
    seed: int = Field(0, ge=0, description="Seed of weights, line-ups, games and sampling")
    ray_address: str | None = Field(
        None, description="Address of a running Ray cluster, or 'auto'; unset: a local one is started"
    )
    max_restarts: int = Field(
        3,
        ge=0,
        description="Times that a run goes on by itself from its last checkpoint, without a further update in between, "
        "after the learner, the replay server or the learner's machine was lost; 0: it ends and says how to resume",
    )
    silence_timeout_s: float = Field(
        60.0,
        gt=0,
        description="Seconds without a sign of life from the learner's process, which it gives also while it computes, "
        "before it counts as lost",
    )


class RolloutSettings(Settings):
    """Who plays the games, how many, and how far ahead of the learner."""

    actors: int = Field(1, ge=1, description="Rollout actors, one engine each")
    max_actors: int | None = Field(
        None,
        ge=1,
        description="Rollout actors at most: what the learner needs beyond rollout.actors is asked of the cluster, "
        "whose autoscaler may bring nodes, and given back when it is idle; unset: always rollout.actors",
    )
    scale_every_s: float = Field(
        30.0, gt=0, description="Seconds of a look at the load; several must agree before max_actors is made use of"
    )
    node_timeout_s: float = Field(
        900.0, gt=0, description="Seconds for the cluster to have room for a further rollout actor, or for a lost one"
    )
    cpus_per_actor: float = Field(1.0, gt=0, description="CPU cores that Ray keeps for one rollout actor")
    gpus_per_actor: float = Field(
        0.0,
        ge=0,
        description="GPUs of one rollout actor, all on one node; whole above 1, a fraction where several actors "
        "share one (then lower inference.gpu_memory_utilization); 0: its engine sees none",
    )
    share_gpu_with_learner: bool = Field(
        False,
        description="One GPU for the learner and one rollout actor, which take turns: games are held and the engine's "
        "memory is freed while the learner updates; between updates the learner's model and optimizer lie in the "
        "machine's memory, and of the GPU it keeps its CUDA context, about half a GiB; needs actors = 1 and "
        "gpus_per_actor = learner.gpus, 1 or (turns on the CPU) 0",
    )
    num_generations: int = Field(
        8, ge=1, description="Games of one line-up block: same country, opponents and versions"
    )
    games_per_actor: int = Field(64, ge=1, description="Games one actor plays at once")
    max_staleness: int = Field(
        1, ge=0, description="Updates that an episode may lag behind the learner; 0: strictly on-policy"
    )
    start_timeout_s: float = Field(180.0, gt=0, description="Seconds for an actor to load its model and report ready")
    swap_timeout_s: float = Field(
        60.0,
        gt=0,
        description="Seconds for an engine to take published weights, counted once it is ready for them; also for it "
        "to free the GPU and to take it back",
    )
    block_timeout_s: float = Field(900.0, gt=0, description="Seconds for one block before its actor is replaced")
    update_timeout_s: float = Field(
        1800.0, gt=0, description="Seconds for one learner update, waiting for episodes included"
    )
    max_replacements: int = Field(
        20,
        ge=0,
        description="Rollout actors replaced (dead, hung, refused weights, could not play) before the run gives up",
    )


class TrainingSettings(LearnerSettings):
    """How one batch becomes a better policy, and where that is computed."""

    gpus: Literal[0, 1] = Field(0, description="GPUs that Ray keeps for the learner; 0: it computes on CPUs")


class ImitationSettings(Settings):
    """What the policy learns from others' games before it plays its own; it starts from competent play then."""

    games: int = Field(
        0, ge=0, description="Games of seven teachers that are played and imitated before the first update; 0: none"
    )
    teacher: str = Field("dumbbot", description="Bot that is imitated")
    until_year: int = Field(1908, ge=1901, description="Last year of a teacher's game")
    saved_games: str | None = Field(
        None, description="Folder of saved games (*.json) that are imitated too, all powers of each"
    )
    epochs: int = Field(4, ge=1, description="Passes over all decisions")
    learning_rate: float = Field(2e-3, gt=0, description="AdamW step size at its highest")
    decisions_per_step: int = Field(128, ge=1, description="Decisions of one optimizer step")
    held_out: float = Field(0.05, gt=0, lt=1, description="Share of the games that only measures")
    processes: int = Field(
        2, ge=1, description="Processes that play the games and compute gradients, one CPU each; 1 takes a GPU if any"
    )

    @property
    def wanted(self) -> bool:
        """Whether there is anything to imitate."""
        return bool(self.games or self.saved_games)


class EvaluationSettings(Settings):
    """How progress is measured: against fixed anchors, all seven countries in rotation."""

    against: tuple[str, ...] = Field(("random",), description="Bots that fill the other six seats, one evaluation each")
    games_per_country: int = Field(10, ge=1, description="Games the policy plays as each country")
    until_year: int = Field(1905, ge=1901, description="Last year of an evaluation game")
    temperature: float = Field(1.0, ge=0, description="Sampling temperature of evaluation games; 0: greedy")
    every: int = Field(0, ge=0, description="Updates between evaluations besides the first and last; 0: none")
    final_against: tuple[str, ...] = Field((), description="Further bots met by the trained policy only")


class Config(Settings):
    """Everything a run needs to know."""

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
    def _agrees_with_itself(self) -> Config:
        if self.learner.episodes_per_update % self.rollout.num_generations:
            raise ValueError(
                f"learner.episodes_per_update ({self.learner.episodes_per_update}) must be a multiple of "
                f"rollout.num_generations ({self.rollout.num_generations}): an update takes whole blocks"
            )
        if 0 < self.learner.top_up_episodes < self.rollout.num_generations:
            raise ValueError(
                f"learner.top_up_episodes ({self.learner.top_up_episodes}) is less than one block "
                f"(rollout.num_generations, {self.rollout.num_generations}); set more, or 0 for none"
            )
        if self.inference.max_completion_length >= self.policy.context_length:
            raise ValueError("inference.max_completion_length must leave room for a prompt in policy.context_length")
        check_weights(self.game.reward)
        self._check_group_keys()
        self._check_players()
        self._check_places()
        self._check_specialists()
        return self

    def _check_players(self) -> None:
        if self.imitation.teacher not in BOT_NAMES:
            raise ValueError(
                f"imitation.teacher: no bot is called {self.imitation.teacher!r}; there are {', '.join(BOT_NAMES)}"
            )
        for name in self.opponents.members:
            if name.startswith(REMOTE_PREFIX):
                remote = name.removeprefix(REMOTE_PREFIX)
                if remote not in self.opponents.remotes:
                    raise ValueError(f"opponents.members: {unknown_chat_player(remote, self.opponents.remotes)}")
            elif name not in BOT_NAMES:
                raise ValueError(
                    f"opponents.members: no bot is called {name!r}; there are {', '.join(BOT_NAMES)}, and remote:NAME"
                )
        for key, names in (
            ("evaluation.against", self.evaluation.against),
            ("evaluation.final_against", self.evaluation.final_against),
        ):
            for name in names:
                if name not in BOT_NAMES:
                    raise ValueError(f"{key}: no bot is called {name!r}; there are {', '.join(BOT_NAMES)}")

    def _check_specialists(self) -> None:
        if not self.policy.specialists:
            return
        if self.grouping.gradient_surgery != "none" or self.alignment.weight > 0:
            raise ValueError(
                "policy.specialists: countries share no trained weights, so that grouping.gradient_surgery and "
                "alignment have nothing to do; turn them off"
            )
        joins = self.opponents.snapshot_every > 0 or self.opponents.promote_margin > 0
        if joins and self.opponents.lineup == "same":
            raise ValueError(
                "policy.specialists: a snapshot plays one country and cannot fill six seats; set opponents.lineup = "
                "mixed, or opponents.snapshot_every and promote_margin = 0"
            )

    def _check_places(self) -> None:
        rollout, size = self.rollout, self.inference.tensor_parallel_size
        if rollout.gpus_per_actor > 1 and not rollout.gpus_per_actor.is_integer():
            raise ValueError(f"rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) must be whole above 1")
        if rollout.max_actors is not None and rollout.max_actors < rollout.actors:
            raise ValueError(
                f"rollout.max_actors ({rollout.max_actors}) is less than rollout.actors ({rollout.actors}), which is "
                "what a run begins with and never goes below"
            )
        if rollout.share_gpu_with_learner:
            if rollout.actors != 1 or size != 1 or rollout.max_actors is not None:
                raise ValueError(
                    "rollout.share_gpu_with_learner is for one GPU: set rollout.actors and "
                    "inference.tensor_parallel_size to 1, and leave rollout.max_actors unset"
                )
            if rollout.gpus_per_actor != self.learner.gpus:
                raise ValueError(
                    f"rollout.share_gpu_with_learner needs rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) equal "
                    f"to learner.gpus ({self.learner.gpus}): 1, or 0 for turns on the CPU"
                )
        elif size > 1 and rollout.gpus_per_actor != size:
            raise ValueError(
                f"rollout.gpus_per_actor ({rollout.gpus_per_actor:g}) must equal inference.tensor_parallel_size "
                f"({size}): one engine spans that many GPUs"
            )

    def _check_group_keys(self) -> None:
        facts = ("task", *EPISODE_FACTS, *(() if self.learner.returns == "episode" else TURN_FACTS))
        try:
            asked = required_facts(self.grouping, TURN_FACTS)
        except GroupingError as error:
            raise ValueError(f"grouping: {error}") from None
        for expression, names in asked.items():
            for name in names:
                if name not in facts and not (self.grouping.allow_outcome_keys and name in OUTCOME_KEYS):
                    raise ValueError(
                        f"grouping: {expression!r} names {name!r}, and there is no such fact under learner.returns = "
                        f"{self.learner.returns!r}; there are {', '.join(facts)}"
                    )
        if self.grouping.opponent_adjusted and EXPECTED_RETURN_FACT not in facts:
            raise ValueError(f"grouping.opponent_adjusted: {self._why_no_expected_return()}")

    def _why_no_expected_return(self) -> str:
        paid = sorted(part for part, weight in self.game.reward.items() if weight)
        learner = self.learner
        undiscounted = learner.returns == "episode" or (learner.returns == "per_phase" and learner.discount == 1)
        if paid != ["sum_of_squares"] or not undiscounted:
            return (
                "ratings predict a share of the sum of squares, and returns here are in other units (game.reward "
                f"pays {', '.join(paid)}, learner.returns = {learner.returns!r}); use the key country+lineup instead"
            )
        return (
            f"episodes do not carry {EXPECTED_RETURN_FACT}, for their facts are text and integers and a predicted "
            "share is a fraction; use the key country+lineup instead"
        )

    @property
    def blocks_per_update(self) -> int:
        """Line-up blocks of one update."""
        return self.learner.episodes_per_update // self.rollout.num_generations

    @property
    def policies_per_version(self) -> int:
        """Of the learner, which may have a specialist for each power."""
        return len(POWERS) if self.policy.specialists else 1

    @property
    def digest(self) -> str:
        """Short SHA-256 of the resolved configuration."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]
