"""The sections of the configuration that only the cluster uses; the others belong to the packages below it."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from grpo_core.section import LONGEST_WAIT_S, Settings
from grpo_core.settings import LearnerSettings
from services.environments.registry import DEFAULT_WORLD
from services.settings import check_host_and_port

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class RunSettings(Settings):
    """One run: its name, its seed and the machine it may use."""

    name: str = Field("run", min_length=1, max_length=100, description="Folder of the run under runs/")
    seed: int = Field(0, ge=0, description="Seed of weights, line-ups, games and sampling")
    ray_address: str | None = Field(
        None, description="Address of a running Ray cluster, or 'auto'; unset: a local one is started"
    )
    max_restarts: int = Field(
        3,
        ge=0,
        description="Restarts of a run from its last checkpoint, without a further update in between, after the "
        "learner, the replay server or the learner's machine was lost; 0: the run ends and prints how to resume",
    )
    silence_timeout_s: float = Field(
        60.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds without a heartbeat of the learner's process, which answers also during a computation, "
        "before it counts as lost",
    )

    @field_validator("name")
    @classmethod
    def _is_a_plain_name(cls, value: str) -> str:
        if not _RUN_NAME.fullmatch(value):
            raise ValueError("a run's name is letters, digits, dots, - and _, and begins with a letter or a digit")
        return value

    @field_validator("ray_address")
    @classmethod
    def _can_be_connected_to(cls, value: str | None) -> str | None:
        if value is not None and value != "auto":
            check_host_and_port(value.removeprefix("ray://"))
        return value


class TaskSettings(Settings):
    """What is played; [game] is the section of this world, which also has keys of its own elsewhere."""

    name: str = Field(
        DEFAULT_WORLD,
        description="The world: diplomacy, kuhn, word_problems, or one of yours by its import path, "
        "package.module:CLASS",
    )


class RolloutSettings(Settings):
    """The rollout actors: how many, their resources, and how far they run ahead of the learner."""

    actors: int = Field(1, ge=1, le=10_000, description="Rollout actors, one engine each")
    max_actors: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Rollout actors at most: when the learner needs more than rollout.actors, they are requested from "
        "the cluster, whose autoscaler may add nodes, and released when idle; unset: always rollout.actors",
    )
    scale_every_s: float = Field(
        30.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds between two measurements of the load; several must agree before actors are added",
    )
    node_timeout_s: float = Field(
        900.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds for the cluster to have room for actors that need further nodes, or for a lost one",
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
        8, ge=1, le=10_000, description="Games of one line-up block: same role, opponents and versions"
    )
    games_per_actor: int = Field(64, ge=1, le=10**6, description="Games one actor plays at once")
    keep_games_every: int = Field(
        20,
        ge=0,
        le=10**6,
        description="Updates between two blocks whose games are kept under games/training/, with every decision's "
        "prompt, probabilities and judgement, for entente replay; the newest ten blocks stay; 0: none are kept",
    )
    max_staleness: int = Field(
        1, ge=0, description="Updates that an episode may lag behind the learner; 0: strictly on-policy"
    )
    start_timeout_s: float = Field(
        180.0, gt=0, le=LONGEST_WAIT_S, description="Seconds for an actor to load its model and report ready"
    )
    swap_timeout_s: float = Field(
        60.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds for an engine to take published weights, counted once it is ready for them; also for it "
        "to free the GPU and to take it back",
    )
    block_timeout_s: float = Field(
        900.0, gt=0, le=LONGEST_WAIT_S, description="Seconds for one block before its actor is replaced"
    )
    update_timeout_s: float = Field(
        1800.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds for one learner update, waiting for episodes included; also for a snapshot of its weights",
    )
    max_replacements: int = Field(
        20,
        ge=0,
        description="Rollout actors replaced (dead, hung, refused weights, could not play) before the run gives up",
    )


class TrainingSettings(LearnerSettings):
    """The learner's update, its processes and their GPUs."""

    gpus: int = Field(
        0,
        ge=0,
        le=1,
        description="GPUs that Ray keeps for each process of the learner, and one core beside it; 0: it computes on "
        "CPUs, and Ray keeps a core for each of learner.threads",
    )
    processes: int = Field(
        1,
        ge=1,
        le=1024,
        description="Processes that train the policy together (FSDP): each holds its share of weights, gradients and "
        "optimizer; a run may be resumed with another number",
    )
    process_placement: Literal["strict_pack", "spread"] = Field(
        "strict_pack",
        description="Where the learner's processes are: all on one node, or on as many nodes as there are",
    )
    exchange_timeout_s: float = Field(
        600.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds that a process of the learner waits for the others in one exchange",
    )
