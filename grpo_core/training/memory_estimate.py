"""How much memory a learner will need, from its settings and its model's shape: before it starts, not when it dies.

What is counted is what a step keeps: weights, gradients, AdamW's two moments, a reference copy, and either the
activations and logits of the largest micro-batch (with gradient surgery, beside the groups' gradients) or the copies
that publishing makes, whichever is more. Activations are those of blocks as in Llama, Mistral and Qwen. It is an upper
bound of what torch allocates. How far above the peak it lies depends on which kernels the CPU has, and is a figure of
``entente bench --only learner``; the interpreter and its libraries (0.6 GiB) come on top. No torch is needed to ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grpo_core.errors import ResourceError
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings

_GIB = 1 << 30
_MOST_ADMISSIBLE = 4096  # distinct ids that are admissible anywhere in one micro-batch under a mask
_SURGERY_GROUPS = 7  # countries; of another grouping.surgery_key no more is known beforehand, so a lower bound

# Bytes kept for the backward pass a token and block, per unit of (hidden, query, key and value, feed-forward) width.
# Two norms keep two states each, and the block's two sums one; queries and keys a norm of their own and the rotated
# states; the feed-forward layer its two projections, what the gate opens and their product.
_FP32 = (24, 20, 16, 16)
_AUTOCAST = (23, 13, 11, 8)  # inputs of linear layers in bfloat16, norms in float32
_FROZEN_FP32 = (16, 16, 12, 16)  # a frozen norm keeps no normed states
_FROZEN_BF16 = (26, 12, 6, 12)  # the blocks in bfloat16, and each input again in float32 for its adapter
_LAST_BLOCK = 0.4  # of a block: keys and values everywhere, the rest at a few positions


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the size of activations depends on; widths in numbers a token."""

    vocab_size: int
    hidden: int
    layers: int
    query: int  # all heads together
    key_value: int  # all key heads together, and as many again for values
    feed_forward: int

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """The shape of a Hugging Face configuration of a causal LM."""
        heads = int(config.num_attention_heads)
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        return cls(
            vocab_size=int(config.vocab_size),
            hidden=int(config.hidden_size),
            layers=int(config.num_hidden_layers),
            query=heads * head_dim,
            key_value=(getattr(config, "num_key_value_heads", None) or heads) * head_dim,
            feed_forward=getattr(config, "intermediate_size", None) or 4 * int(config.hidden_size),
        )


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by what they hold."""

    weights: int
    gradients: int
    moments: int
    reference: int
    step: int  # activations and logits of one micro-batch
    publishing: int  # copies of the weights on their way to engines and disk, while no step runs
    surgery: int = 0  # gradients of groups side by side, while a step runs

    @property
    def total(self) -> int:
        """The most that is held at once."""
        lasting = self.weights + self.gradients + self.moments + self.reference
        return lasting + max(self.step + self.surgery, self.publishing)

    @property
    def step_is_largest(self) -> bool:
        """Whether a step needs more than publishing does."""
        return self.step + self.surgery > self.publishing

    def __str__(self) -> str:
        parts = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.moments,
            "reference": self.reference,
            **(
                {"micro-batch": self.step, "gradient surgery": self.surgery}
                if self.step_is_largest
                else {"publishing": self.publishing}
            ),
        }
        listed = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in parts.items() if size)
        return f"{self.total / _GIB:.2f} GiB ({listed})"


def estimate_memory(
    shape: ModelShape,
    policy: PolicySettings,
    learner: LearnerSettings,
    *,
    parameters: int,
    trained: int,
    free_text: bool = False,
    grouping: GroupingSettings | None = None,
) -> MemoryEstimate:
    """What a learner of this model will hold on one device.

    Args:
        shape: of the model.
        policy: ``dtype``, ``use_peft`` and ``context_length``.
        learner: ``tokens_per_microbatch``, ``gradient_checkpointing``, ``bf16`` and ``beta``.
        parameters: all numbers of the model, adapters included.
        trained: those that have a gradient.
        free_text: whether tokens are sampled from the whole vocabulary, whose logits are made a block at a time.
        grouping: ``gradient_surgery``, which keeps a gradient a group. The groups of ``surgery_key = "country"`` are
            seven; of any other key seven are counted too, a lower bound. None: no surgery.
    """
    weights = 4 * trained + (2 if policy.dtype == "bfloat16" else 4) * (parameters - trained)
    tokens = max(learner.tokens_per_microbatch, policy.context_length)
    ids = min(shape.vocab_size, _MOST_ADMISSIBLE)
    logits = 4 * (1 << 20) if free_text else 2 * 4 * tokens * ids  # and their gradients
    if learner.bf16:
        logits += 2 * parameters  # matrices cast once a micro-batch and kept for its backward pass
    operates = grouping is not None and grouping.gradient_surgery != "none"
    # Engines get the adapter; a checkpoint holds it merged. Of full weights two copies are made on the way into bytes.
    publishing = weights + 2 * 4 * trained if policy.use_peft else 2 * weights
    return MemoryEstimate(
        weights=weights,
        gradients=4 * trained,
        moments=8 * trained,
        reference=4 * parameters if learner.beta > 0 and not policy.use_peft else 0,
        step=_activations(shape, policy, learner, tokens) + logits,
        publishing=publishing,
        surgery=_SURGERY_GROUPS * 4 * trained if operates else 0,
    )


def check_learner_memory(
    estimate: MemoryEstimate, available: int, policy: PolicySettings, learner: LearnerSettings
) -> None:
    """Refuse a learner that does not fit.

    Args:
        estimate: what it will hold.
        available: bytes that are free for it, its loaded weights included.
        policy: its settings, for what could be changed in them.
        learner: likewise.

    Raises:
        ResourceError: one line with the numbers and what to change.
    """
    if estimate.total <= available:
        return
    stepping = estimate.step_is_largest
    changes = {
        "set grouping.gradient_surgery = none": stepping and estimate.surgery > 0,
        f"lower learner.tokens_per_microbatch ({learner.tokens_per_microbatch})": stepping,
        "set learner.gradient_checkpointing": stepping and not learner.gradient_checkpointing,
        "set learner.bf16": stepping and not learner.bf16,
        "train adapters (policy.use_peft)": not policy.use_peft,
        "freeze the base in bfloat16 (policy.dtype)": policy.use_peft and policy.dtype == "float32",
    }
    advice = "; ".join(change for change, helps in changes.items() if helps)
    raise ResourceError(
        f"the learner needs about {estimate}, {available / _GIB:.2f} GiB are free: {advice + '; or ' if advice else ''}"
        "take a smaller model"
    )


def _activations(shape: ModelShape, policy: PolicySettings, learner: LearnerSettings, tokens: int) -> int:
    if learner.bf16:
        bytes_per_width = _AUTOCAST
    elif policy.use_peft:
        bytes_per_width = _FROZEN_BF16 if policy.dtype == "bfloat16" else _FROZEN_FP32
    else:
        bytes_per_width = _FP32
    widths = (shape.hidden, shape.query, shape.key_value, shape.feed_forward)
    block = tokens * sum(size * width for size, width in zip(bytes_per_width, widths, strict=True))
    # Gradients on their way through a block.
    passing = (2 if learner.bf16 else 4) * tokens * 2 * (shape.feed_forward + shape.hidden)
    if learner.gradient_checkpointing:
        return shape.layers * 4 * tokens * shape.hidden + block + passing
    return int((shape.layers - 1 + _LAST_BLOCK) * block) + passing
