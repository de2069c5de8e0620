"""Typed, strict settings of the mathematics."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, Strict, field_validator, model_validator

from grpo_core.section import LONGEST_WAIT_S, Settings, Texts

# Known only after a game. What is known before it has other names: own_centers, scenario_length, difficulty.
OUTCOME_KEYS = frozenset(
    {
        *("return", "return_quartile", "reward", "length", "outcome", "centers"),
        *("solo", "draw", "top", "survived", "final_year", "phases", "defective_orders"),
    }
)


Normalizer = Literal["token", "batch_token", "turn", "episode", "max_completion_length"]
_NORMALIZERS: dict[str, Normalizer] = {
    "bnpo": "token",
    "dapo": "batch_token",
    "cispo": "batch_token",
    "dr_grpo": "max_completion_length",
    "grpo": "turn",
    "rloo": "turn",
}


class PolicySettings(Settings):
    """The policy to train: a small model made from nothing, or a Hugging Face folder."""

    path: str | None = Field(
        None,
        description="Hugging Face causal LM to start from: a folder, champion (the policy that comes with the "
        "package), or a name on the Hub such as Qwen/Qwen3-0.6B (@REVISION may follow); unset: make the small policy",
    )
    prompt: Literal["notation", "chat"] = Field(
        "notation",
        description="What the policy reads; notation: the position in a few dozen words; chat: rules, position, last "
        "orders and legal orders in English, through the tokenizer's chat template, in 1,000 tokens and more",
    )
    notes: bool = Field(
        False,
        description="Write before each order, without a choice, what lies around its unit: the policy then learns it "
        "from far fewer games, and reads about twice the words; needs prompt = notation, decoding under a mask and a "
        "world that has notes, such as diplomacy",
    )
    architecture: Literal["qwen3", "llama"] = Field("qwen3", description="Model class of the small policy")
    hidden_size: int = Field(128, ge=32, le=4096, description="Width of the small policy; a multiple of head_dim")
    layers: int = Field(4, ge=1, le=64, description="Transformer blocks of the small policy")
    head_dim: int = Field(32, description="Size of one attention head; 32, 64, 80, 96, 112 and 128 run in vLLM")
    intermediate_size: int = Field(
        384, ge=32, le=1 << 20, description="Width of the feed-forward blocks of the small policy"
    )
    context_length: int = Field(512, ge=128, le=1 << 24, description="Most tokens of prompt and completion together")
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32", description="Type of the learner's weights; bfloat16 is for the frozen base under use_peft"
    )
    use_peft: bool = Field(False, description="Train LoRA adapters (of peft) and leave the policy's weights frozen")
    specialists: bool = Field(
        False, description="One adapter a role, trained on that role's games alone; needs use_peft = true"
    )
    lora_r: int = Field(16, ge=1, le=4096, description="Rank of the adapters")
    lora_alpha: int = Field(32, ge=1, description="The adapters' output is multiplied by lora_alpha / lora_r")
    lora_target_modules: Texts = Field(
        ("all-linear",),
        min_length=1,
        examples=[["q_proj", "v_proj"]],
        description="Names of the linear layers that get adapters, e.g. q_proj; all-linear: every one but the output",
    )

    @field_validator("head_dim")
    @classmethod
    def _vllm_accepts(cls, value: int) -> int:
        if value not in (32, 64, 80, 96, 112, 128):
            raise ValueError("head_dim must be one of 32, 64, 80, 96, 112, 128")
        return value

    @model_validator(mode="after")
    def _trained_weights_are_fp32(self) -> Self:
        if self.dtype != "float32" and not self.use_peft:
            raise ValueError(
                "policy.dtype bfloat16 needs use_peft = true: small updates of bfloat16 weights are rounded away; "
                "learner.bf16 computes in bfloat16 over fp32 weights"
            )
        return self

    @model_validator(mode="after")
    def _specialists_are_adapters(self) -> Self:
        if self.specialists and not self.use_peft:
            raise ValueError("policy.specialists needs use_peft = true: each role has an adapter over shared weights")
        return self


CHOOSE = "choose"


def _as_keys(value: Any) -> Any:
    return (CHOOSE,) if value == CHOOSE else value


class GroupingSettings(Settings):
    """Which samples are compared with one another."""

    keys: Annotated[Texts, BeforeValidator(_as_keys)] = Field(
        ("country+phase", "country+segment", "country"),
        min_length=1,
        examples=[["country+lineup", "country"]],
        description="Key expressions from fine to coarse, facts joined by '+': country, lineup, phase, "
        "segment, own_centers, alliance, with press act and at_peace, start_year, scenario, policy_opponents, task, "
        "fork; start_year:4 puts a number known at the start into 4 quantile bins; auto, "
        "adaptive and dirichlet are clusters; a group under min_group_size falls back to the next, at last to a "
        'running mean per role; "choose": the one of choices that has predicted returns best in earlier batches',
    )
    choices: Annotated[tuple[Texts, ...], Strict(False)] = Field(
        (),
        examples=[[["country+phase", "country"], ["country+lineup", "country"]]],
        description='Chains of keys that keys = "choose" chooses among; the first one until something is known',
    )
    choice_decay: float = Field(
        0.9, ge=0, lt=1, description="Memory of what each of the choices has predicted, per update"
    )
    role_name: str = Field("country", min_length=1, description="The world's word for a role, which every key names")
    min_group_size: int = Field(4, ge=2, description="Episodes under which a group falls back")
    scale_rewards: Literal["group", "batch", "none"] = Field("batch", description="Divide advantages by this deviation")
    baseline: Literal["mean", "leave_one_out"] = Field(
        "mean", description="A group's mean, or that of the other members (removes the (G-1)/G shrinkage)"
    )
    shrinkage: bool = Field(
        False,
        description="Let a group's mean lean on its parent's in the chain, the more the smaller the group (empirical "
        "Bayes); each key must be finer than the next, and min_group_size = 2 goes well with it",
    )
    running_baseline_decay: float = Field(0.95, gt=0, lt=1, description="Memory of the per-role baseline, per update")
    allow_outcome_keys: bool = Field(False, description="Permit keys made from outcomes; biased, and reports say so")
    opponent_adjusted: bool = Field(
        False,
        description="Subtract the episode's fact expected_return, what the line-up's ratings predict, from its returns",
    )
    group_weights: Literal["none", "balanced", "performance", "adaptive"] = Field(
        "none",
        description="Factor on the advantages of each group of weight_key: equal totals, more for groups that earn "
        "less, or more for groups whose returns are moving",
    )
    weight_key: str = Field("country", description="Key expression of the groups that group_weights weighs")
    min_group_weight: float = Field(0.5, gt=0, le=1, description="Smallest group weight; the mean over episodes is 1")
    max_group_weight: float = Field(2.0, ge=1, description="Largest group weight")
    n_groups: int = Field(4, ge=1, description="Clusters a role of auto and adaptive; the most of dirichlet")
    cluster_features: Texts = Field(
        (),
        examples=[["start_year"]],
        description="Numbers known at an episode's start that clusters are made from; none named: all of them",
    )
    cluster_window: int = Field(
        1000, ge=1, description="Latest episodes of a role that adaptive clusters are made from"
    )
    cluster_seed: int = Field(0, ge=0, le=(1 << 32) - 1, description="Seed of the clusters' starts")
    gradient_surgery: Literal["none", "pcgrad", "cagrad"] = Field(
        "none",
        description="What to do where the groups of surgery_key pull in different directions; one backward pass and "
        "one gradient in memory a group, so for adapters and small models",
    )
    surgery_key: str = Field("country", description="Key expression of the groups whose gradients surgery compares")
    cagrad_c: float = Field(
        0.4, ge=0, lt=1, description="How far CAGrad may go from the mean gradient, in lengths of it"
    )

    @property
    def chooses_keys(self) -> bool:
        """Whether the chain of keys is chosen among ``choices``, batch by batch."""
        return self.keys == (CHOOSE,)

    @property
    def declared_keys(self) -> tuple[str, ...]:
        """All key expressions that may be used: ``keys``, or those of ``choices``, each once."""
        return tuple(dict.fromkeys(key for chain in self.choices for key in chain)) if self.chooses_keys else self.keys

    @model_validator(mode="after")
    def _there_is_a_choice(self) -> Self:
        if self.chooses_keys and (len(self.choices) < 2 or not all(self.choices)):
            example = '[["country+phase"], ["country"]]'
            raise ValueError(f'keys = "choose" needs two or more chains in choices, e.g. {example}')
        if self.chooses_keys and self.shrinkage:
            # Chains are judged by their groups' own means, and shrinkage needs chains that are nested.
            raise ValueError('shrinkage: not with keys = "choose"; declare one chain, or set shrinkage to false')
        return self


class LearnerSettings(Settings):
    """How one batch becomes a better policy. Names follow TRL's GRPOConfig where it has them."""

    learning_rate: Annotated[float, Field(gt=0, description="AdamW step size")] = 3e-4
    lr_warmup_updates: int = Field(5, ge=0, description="Updates over which the learning rate rises linearly")
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="The learning rate after that; linear and cosine fall to 0 at the last of updates"
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    adam_beta2: float = Field(0.99, gt=0, lt=1, description="AdamW second-moment decay")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient norm above which it is scaled down")
    returns: Literal["episode", "per_phase", "segment"] = Field(
        "per_phase",
        description="One return an episode, discounted returns-to-go of each phase's rewards, or a turn's rewards to "
        "the end of its segment (opening, midgame, endgame)",
    )
    discount: float = Field(0.85, gt=0, le=1, description="Discount a game phase, for per-phase returns")
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "rloo"] = Field(
        "grpo",
        description="Policy loss: grpo, bnpo, dr_grpo and dapo clip the same way and differ in the normalizer they "
        "imply; cispo bounds the ratio and keeps every gradient; rloo takes a turn as one action (needs "
        "grouping.baseline = leave_one_out)",
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        "token",
        description="One importance ratio a token, or one a sequence (GSPO), which here is one turn's trained tokens; "
        "the latter wants epsilons near 4e-4 and a normalizer by turn",
    )
    epsilon: float = Field(0.2, gt=0, lt=1, description="Lower clip range of the importance ratio")
    epsilon_high: float = Field(
        0.28, gt=0, description="Upper clip range of the importance ratio; for cispo the largest ratio, e.g. 5.0"
    )
    delta: float | None = Field(
        None,
        gt=1,
        description="Largest ratio that a negative advantage counts with (dual clip), above 1 + epsilon_high; "
        "unset: unbounded",
    )
    normalizer: Literal["auto", "token", "batch_token", "turn", "episode", "max_completion_length"] = Field(
        "auto",
        description="What weighs equally in the loss: every trained token of an optimizer step, or of the whole "
        "update, every turn, every episode, or tokens over the constant turns x max_completion_length; auto follows "
        "loss_type: grpo and rloo turn, bnpo token, dapo and cispo batch_token, dr_grpo max_completion_length",
    )
    max_completion_length: int | None = Field(
        None, ge=1, description="Tokens; the constant of the normalizer of that name, e.g. the longest completion"
    )
    entropy_coef: float = Field(0.0, ge=0, description="Bonus for entropy over admissible ids, per trained token, nats")
    beta: float = Field(
        0.0,
        ge=0,
        description="Weight of the KL penalty to the run's first weights; above 0, turns without advantage are "
        "trained too",
    )
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="Estimator of that KL from one sampled token")
    use_bias_correction_kl: bool = Field(
        True,
        description="Multiply the KL estimate by the importance ratio, so that the gradient of k1 and k3 is the "
        "reverse KL's; k2 has it without",
    )
    decoupled: bool = Field(
        False,
        description="Decoupled PPO: clip against the weights at the update's start (one more forward pass if there "
        "are several optimizer steps) and weigh tokens by theirs over the behaviour policy's probability; TRL's "
        "vllm_importance_sampling_correction",
    )
    importance_sampling_mode: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None = (
        Field(
            None,
            description="How the weights of decoupled are bounded, a token or a turn at a time: truncated, or 0 "
            "outside the bounds; unset: unbounded token weights; TRL's vllm_importance_sampling_mode",
        )
    )
    importance_sampling_clip_max: float | None = Field(
        3.0, gt=0, description="Upper bound of importance_sampling_mode; TRL's vllm_importance_sampling_clip_max"
    )
    importance_sampling_clip_min: float | None = Field(
        None, ge=0, description="Lower bound of importance_sampling_mode; TRL's vllm_importance_sampling_clip_min"
    )
    off_policy_mask_threshold: float | None = Field(
        None,
        gt=0,
        description="Drop turns of negative advantage whose log-probability fell by more than this since they were "
        "sampled, nats a token",
    )
    top_advantage_quantile: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Train only this share of an update's turns, those whose advantage is largest either way: half of "
        "them cost half the time and carry most of the gradient; 1: all",
    )
    minibatches: int = Field(2, ge=1, description="Optimizer steps an epoch (each over its share of the turns)")
    epochs: int = Field(1, ge=1, description="Passes over each batch")
    tokens_per_microbatch: int = Field(
        2048, ge=256, description="Padded tokens of one forward and backward pass; 2048 suits a CPU, a GPU likes more"
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: less memory, about a third more time"
    )
    activation_offloading: bool = Field(
        False,
        description="Keep the blocks' inputs in the host's memory between forward and backward pass; for a GPU, with "
        "gradient_checkpointing: longer turns fit, and each input crosses the bus twice",
    )
    bf16: bool = Field(
        False, description="Multiply matrices in bfloat16 (autocast); weights, log-softmax and the loss stay in float32"
    )
    episodes_per_update: int = Field(
        56, ge=1, description="Episodes of one update; a multiple of rollout.num_generations"
    )
    top_up_episodes: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Most further episodes of an update, in whole blocks, that replace samples of zero-variance "
        "groups (DAPO's dynamic sampling); those leave the loss and its normalizer; 0: none, and they stay in both",
    )
    top_up_timeout_s: float = Field(
        600.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds that an update waits for these episodes before it goes on without the rest",
    )
    updates: int = Field(100, ge=1, le=10**9, description="Updates of the whole run")
    checkpoint_every: int = Field(
        10, ge=1, description="Updates between durable checkpoints (episodes are acknowledged then)"
    )
    keep_checkpoints: int = Field(3, ge=1, description="Newest checkpoints kept on disk, besides the first and last")
    threads: int = Field(1, ge=1, le=4096, description="CPU threads of the learner, or of each of its processes")

    @property
    def named_normalizer(self) -> Normalizer:
        """The normaliser in force: the one set or, under ``auto``, the loss type's own."""
        return _NORMALIZERS[self.loss_type] if self.normalizer == "auto" else self.normalizer

    @model_validator(mode="after")
    def _the_loss_fits_together(self) -> Self:
        for wrong, message in self._contradictions():
            if wrong:
                raise ValueError(message)
        return self

    def _contradictions(self) -> list[tuple[bool, str]]:
        whole_turns = self.loss_type == "rloo"
        mode = self.importance_sampling_mode
        low, high = self.importance_sampling_clip_min, self.importance_sampling_clip_max
        return [
            (
                self.loss_type == "cispo" and self.epsilon_high < 1,
                "loss_type cispo bounds the ratio itself by epsilon_high; set it to at least 1, e.g. 5.0",
            ),
            (
                self.delta is not None and self.loss_type in ("cispo", "rloo"),
                f"delta has no place in loss_type {self.loss_type}; unset it",
            ),
            (
                self.delta is not None and self.delta <= 1 + self.epsilon_high,
                "delta must be above 1 + epsilon_high, or it undoes the clip",
            ),
            (
                self.named_normalizer == "max_completion_length" and self.max_completion_length is None,
                "normalizer max_completion_length (of loss_type dr_grpo) needs max_completion_length in tokens",
            ),
            (
                whole_turns and self.importance_sampling_level == "sequence",
                "loss_type rloo takes the ratio of the whole turn already; leave importance_sampling_level at token",
            ),
            (
                whole_turns and self.decoupled and mode not in ("sequence_truncate", "sequence_mask"),
                "loss_type rloo weighs whole turns; decoupled needs importance_sampling_mode sequence_truncate or "
                "sequence_mask",
            ),
            (
                self.top_advantage_quantile < 1 and (self.entropy_coef > 0 or self.beta > 0),
                "top_advantage_quantile below 1 saves nothing beside entropy_coef or beta, which need every turn",
            ),
            (
                self.activation_offloading and not self.gradient_checkpointing,
                "activation_offloading keeps the inputs of blocks that are computed again; set gradient_checkpointing",
            ),
            (mode is not None and not self.decoupled, "importance_sampling_mode needs decoupled = true"),
            (
                mode is not None and low is None and high is None,
                "importance_sampling_mode needs importance_sampling_clip_max or importance_sampling_clip_min",
            ),
            (
                mode is not None and low is not None and high is not None and low >= high,
                "importance_sampling_clip_min must be below importance_sampling_clip_max",
            ),
            (mode is None and low is not None, "importance_sampling_clip_min needs importance_sampling_mode"),
            (
                self.beta > 0 and self.kl_estimator == "k1" and not self.use_bias_correction_kl,
                "kl_estimator k1 has no gradient in expectation without use_bias_correction_kl",
            ),
            (
                self.beta > 0 and self.kl_estimator == "k2" and self.use_bias_correction_kl,
                "kl_estimator k2 has the reverse KL's gradient by itself; set use_bias_correction_kl = false",
            ),
        ]


class AlignmentSettings(Settings):
    """Which roles are drawn together, how strongly, and what keeps them from collapsing."""

    weight: float = Field(0.0, ge=0, description="Weight of the alignment loss beside the policy loss; 0: off")
    pairs: Annotated[tuple[Annotated[tuple[str, str], Strict(False)], ...], Strict(False)] = Field(
        (("ENGLAND", "TURKEY"),),
        examples=[[["ENGLAND", "TURKEY"], ["FRANCE", "ITALY"]]],
        description="Pairs of roles whose hidden states are drawn together",
    )
    variance: float = Field(
        1.0, ge=0, description="Weight of the collapse guard's variance term, as a multiple of the pull"
    )
    covariance: float = Field(
        0.04, ge=0, description="Weight of the collapse guard's covariance term, as a multiple of the pull"
    )
    deviation: float = Field(
        1.0, gt=0, description="Standard deviation a dimension must keep over a role's rows, in hidden units"
    )
    rows: int = Field(8, ge=2, description="Turns of each role, drawn for every optimizer step")

    @field_validator("pairs")
    @classmethod
    def _of_two_roles(cls, value: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        if any(first == second for first, second in value) or len({frozenset(pair) for pair in value}) != len(value):
            raise ValueError("alignment pairs must name two different roles, each pair once")
        return value
