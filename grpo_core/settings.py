"""Typed, strict settings of the mathematics; the other floors derive their own sections from ``Settings``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

OUTCOME_KEYS = frozenset({"return", "length", "outcome", "centers", "return_quartile"})


class Settings(BaseModel):
    """One section of the configuration: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class PolicySettings(Settings):
    """The policy to train: a small model made from nothing, or a Hugging Face folder."""

    path: str | None = Field(
        None, description="Folder of a Hugging Face causal LM to start from; unset: make the small policy"
    )
    architecture: Literal["qwen3", "llama"] = Field("qwen3", description="Model class of the small policy")
    hidden_size: int = Field(128, ge=32, le=4096, description="Width of the small policy; a multiple of head_dim")
    layers: int = Field(4, ge=1, le=64, description="Transformer blocks of the small policy")
    head_dim: int = Field(32, description="Size of one attention head; 32, 64, 80, 96, 112 and 128 run in vLLM")
    intermediate_size: int = Field(384, ge=32, description="Width of the feed-forward blocks of the small policy")
    context_length: int = Field(512, ge=128, description="Most tokens of prompt and completion together")

    @field_validator("head_dim")
    @classmethod
    def _vllm_accepts(cls, value: int) -> int:
        if value not in (32, 64, 80, 96, 112, 128):
            raise ValueError("head_dim must be one of 32, 64, 80, 96, 112, 128")
        return value


class GroupingSettings(Settings):
    """Which samples are judged against one another."""

    keys: tuple[str, ...] = Field(
        ("country+phase", "country+segment", "country"),
        min_length=1,
        description="Key expressions from fine to coarse, facts joined by '+': country, lineup, phase, "
        "segment, own_centers; a group under min_group_size falls back to the next, at last to a running "
        "mean per country",
    )
    min_group_size: int = Field(4, ge=2, description="Samples under which a group falls back")
    scale_rewards: Literal["group", "batch", "none"] = Field("batch", description="Divide advantages by this deviation")
    baseline: Literal["mean", "leave_one_out"] = Field(
        "mean", description="A group's mean, or that of the other members (removes the (G-1)/G shrinkage)"
    )
    shrinkage: bool = Field(
        False,
        description="Let a group's mean lean on its parent's in the chain, the more the smaller the group (empirical "
        "Bayes); each key must be finer than the next, and min_group_size = 2 goes well with it",
    )
    running_baseline_decay: float = Field(
        0.95, gt=0, lt=1, description="Memory of the per-country baseline, per update"
    )
    allow_outcome_keys: bool = Field(False, description="Permit keys made from outcomes; biased, and reports say so")


class LearnerSettings(Settings):
    """How one batch becomes a better policy. Names follow TRL's GRPOConfig where it has them."""

    learning_rate: Annotated[float, Field(gt=0, description="AdamW step size")] = 3e-4
    lr_warmup_updates: int = Field(5, ge=0, description="Updates over which the learning rate rises linearly")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    adam_beta2: float = Field(0.99, gt=0, lt=1, description="AdamW second-moment decay")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient norm above which it is scaled down")
    returns: Literal["episode", "per_phase"] = Field(
        "per_phase", description="One return an episode, or discounted returns-to-go of each phase's rewards"
    )
    discount: float = Field(0.85, gt=0, le=1, description="Discount a game phase, for per-phase returns")
    epsilon: float = Field(0.2, gt=0, lt=1, description="Lower clip range of the importance ratio")
    epsilon_high: float = Field(0.28, gt=0, description="Upper clip range of the importance ratio")
    normalizer: Literal["token", "turn", "episode"] = Field(
        "turn",
        description="What weighs equally in the loss: every trained token, every turn, or every episode",
    )
    entropy_coef: float = Field(0.0, ge=0, description="Bonus for entropy over admissible ids, per trained token, nats")
    minibatches: int = Field(2, ge=1, description="Optimizer steps an epoch (each over its share of the turns)")
    epochs: int = Field(1, ge=1, description="Passes over each batch")
    tokens_per_microbatch: int = Field(
        2048,
        ge=256,
        description="Padded tokens of one forward and backward pass; 2048 suits a CPU, a GPU likes more",
    )
    episodes_per_update: int = Field(
        56, ge=1, description="Episodes of one update; a multiple of rollout.num_generations"
    )
    updates: int = Field(100, ge=1, description="Updates of the whole run")
    checkpoint_every: int = Field(
        10, ge=1, description="Updates between durable checkpoints (episodes are acknowledged then)"
    )
    keep_checkpoints: int = Field(3, ge=1, description="Newest checkpoints kept on disk, besides the first and last")
    threads: int = Field(1, ge=1, description="CPU threads of the learner")
