"""Estimate the memory a learner needs from its settings and its model's shape, before it starts and without torch.

It counts weights, gradients, AdamW's moments, a reference copy, and the larger of a step (activations and logits of the
largest micro-batch, and the groups' gradients for surgery) and publishing (copies of the weights). It is an upper bound
of what torch allocates with blocks as in Llama, Mistral and Qwen. The interpreter needs 0.6 GiB more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grpo_core.errors import ResourceError
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings

_GIB = 1 << 30
_MOST_ADMISSIBLE = 4096  # distinct ids that are admissible anywhere in one micro-batch under a mask
_SURGERY_GROUPS = 7  # countries; a lower bound for any other grouping.surgery_key

# Bytes that a block keeps for the backward pass of a token, per unit of (hidden, query, key and value, feed-forward)
# width: two states for each of two norms and one for the block's two sums; for queries and keys a norm and the rotated
# states; for the feed-forward layer two projections, the gate's output and their product.
_FP32 = (24, 20, 16, 16)
_AUTOCAST = (23, 13, 11, 8)  # inputs of linear layers in bfloat16, norms in float32
_FROZEN_FP32 = (16, 16, 12, 16)  # a frozen norm keeps no normed states
_FROZEN_BF16 = (26, 12, 6, 12)  # blocks in bfloat16, and each input also in float32 for its adapter
_LAST_BLOCK = 0.4  # share of a full block: keys and values everywhere, the rest at a few positions


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that activations depend on; widths are in numbers a token."""

    vocab_size: int
    hidden: int
    layers: int
    query: int  # all heads together
    key_value: int  # all key heads together; values have the same width
    feed_forward: int

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """Read the shape from a causal LM's Hugging Face configuration."""
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
    publishing: int  # copies of the weights for engines and disk, while no step runs
    surgery: int = 0  # the groups' gradients, while a step runs
    gathered: int = 0  # of several processes: what a step gathers of the others' shares
    offloaded: int = 0  # in the host's memory, not on the device: inputs of blocks while a step runs
    published: int = 0  # the same, beside a GPU: copies of the weights for engines and disk

    @property
    def total(self) -> int:
        """The peak on the device, in bytes."""
        lasting = self.weights + self.gradients + self.moments + self.reference
        return lasting + max(self.step + self.surgery + self.gathered, self.publishing)

    @property
    def on_host(self) -> int:
        """The peak in the host's memory beside a GPU, in bytes; no step runs while weights are published."""
        return max(self.offloaded, self.published)

    @property
    def step_is_largest(self) -> bool:
        """Whether a step needs more than publishing does."""
        return self.step + self.surgery + self.gathered > self.publishing

    def __str__(self) -> str:
        parts = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.moments,
            "reference": self.reference,
        }
        if self.step_is_largest:
            parts |= {"micro-batch": self.step, "gradient surgery": self.surgery, "gathered": self.gathered}
        else:
            parts["publishing"] = self.publishing
        listed = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in parts.items() if size)
        on_host = f", and {self.on_host / _GIB:.2f} GiB of the host's memory" if self.on_host else ""
        return f"{self.total / _GIB:.2f} GiB ({listed}){on_host}"


def estimate_memory(
    shape: ModelShape,
    policy: PolicySettings,
    learner: LearnerSettings,
    *,
    parameters: int,
    trained: int,
    free_text: bool = False,
    grouping: GroupingSettings | None = None,
    processes: int = 1,
    publishes: bool = True,
    on_gpu: bool = False,
) -> MemoryEstimate:
    """Estimate the memory of a learner on one device, or of one of its processes.

    Args:
        shape: the model's.
        policy: settings of its weights and adapters.
        learner: settings of the update.
        parameters: the model's parameters, adapters included.
        trained: the parameters that have a gradient.
        free_text: whether tokens are sampled from the whole vocabulary, whose logits are made block by block.
        grouping: for ``gradient_surgery``, which is counted with seven groups; None: no surgery.
        processes: that share weights, gradients and optimizer.
        publishes: whether it is the first of these, which sends and saves the weights; the others help to gather them.
        on_gpu: whether the device is a GPU, beside which the host's memory has the bytes for engines and disk.
    """
    weights = 4 * trained + (2 if policy.dtype == "bfloat16" else 4) * (parameters - trained)
    tokens = max(learner.tokens_per_microbatch, policy.context_length)
    ids = min(shape.vocab_size, _MOST_ADMISSIBLE)
    logits = 4 * (1 << 20) if free_text else 2 * 4 * tokens * ids  # and their gradients
    if learner.bf16:
        logits += 2 * parameters  # matrices cast once a micro-batch and kept for its backward pass
    operates = grouping is not None and grouping.gradient_surgery != "none"
    # Engines get the adapter; a checkpoint has it merged. Full weights are copied twice when they become bytes.
    copied = merged = weights if policy.use_peft else 0
    in_bytes = 2 * 4 * trained if policy.use_peft else 2 * weights
    moved = in_bytes // 2  # from a GPU, before they become bytes
    reference = 4 * parameters if learner.beta > 0 and not policy.use_peft else 0
    gathered = 0
    if processes > 1:
        largest = _largest_gathered(shape, parameters)
        # Once as it arrives and once by parameter; the gradients likewise.
        gathered = 2 * (weights + 4 * trained) * largest // parameters
        # Whole weights exist once, beside one tensor.
        copied = 2 * 4 * shape.vocab_size * shape.hidden
        merged, in_bytes = 0, 2 * 4 * trained if policy.use_peft else weights
        moved = in_bytes // 2 if policy.use_peft else copied // 2
    if not publishes:
        merged = in_bytes = moved = 0
    return MemoryEstimate(
        weights=-(-weights // processes),
        gradients=-(-4 * trained // processes),
        moments=-(-8 * trained // processes),
        reference=-(-reference // processes),
        step=_activations(shape, policy, learner, tokens) + logits,
        offloaded=shape.layers * _block_input(shape, tokens) if learner.activation_offloading else 0,
        publishing=copied if on_gpu else copied + in_bytes,
        published=merged + moved + in_bytes if on_gpu else 0,  # what is merged on the GPU is copied for the disk
        surgery=_SURGERY_GROUPS * 4 * trained if operates else 0,
        gathered=gathered,
    )


def _largest_gathered(shape: ModelShape, parameters: int) -> int:
    """Return the most parameters that are whole at once: embeddings, the last block, and two others."""
    block = 2 * shape.hidden * (shape.query + shape.key_value) + 3 * shape.hidden * shape.feed_forward
    return min(parameters, 2 * shape.vocab_size * shape.hidden + 3 * block)


def check_learner_memory(
    estimate: MemoryEstimate,
    available: int,
    policy: PolicySettings,
    learner: LearnerSettings,
    *,
    on_gpu: bool = False,
) -> None:
    """Raise ResourceError, with the settings to change, if the estimate exceeds the available bytes.

    ``available`` includes the bytes that the learner's loaded weights occupy already; ``on_gpu`` says that they are a
    GPU's, beside which there is the host's memory.
    """
    if estimate.total <= available:
        return
    stepping = estimate.step_is_largest
    changes = {
        "set grouping.gradient_surgery = none": stepping and estimate.surgery > 0,
        f"lower learner.tokens_per_microbatch ({learner.tokens_per_microbatch})": stepping,
        "set learner.gradient_checkpointing": stepping and not learner.gradient_checkpointing,
        "set learner.activation_offloading": on_gpu
        and stepping
        and learner.gradient_checkpointing
        and not learner.activation_offloading,
        "set learner.bf16": stepping and not learner.bf16,
        "raise learner.processes": estimate.gathered > 0,
        "train adapters (policy.use_peft)": not policy.use_peft,
        "freeze the base in bfloat16 (policy.dtype)": policy.use_peft and policy.dtype == "float32",
    }
    advice = "; ".join(change for change, helps in changes.items() if helps)
    raise ResourceError(
        f"the learner needs about {estimate}, {available / _GIB:.2f} GiB are free: {advice + '; or ' if advice else ''}"
        "take a smaller model"
    )


def _block_input(shape: ModelShape, tokens: int) -> int:
    return 4 * tokens * shape.hidden


def _activations(shape: ModelShape, policy: PolicySettings, learner: LearnerSettings, tokens: int) -> int:
    if learner.bf16:
        bytes_per_width = _AUTOCAST
    elif policy.use_peft:
        bytes_per_width = _FROZEN_BF16 if policy.dtype == "bfloat16" else _FROZEN_FP32
    else:
        bytes_per_width = _FP32
    widths = (shape.hidden, shape.query, shape.key_value, shape.feed_forward)
    block = tokens * sum(size * width for size, width in zip(bytes_per_width, widths, strict=True))
    # Gradients within the block whose backward pass runs.
    passing = (2 if learner.bf16 else 4) * tokens * 2 * (shape.feed_forward + shape.hidden)
    if learner.gradient_checkpointing:
        # Of the blocks' inputs; with offloading one leaves while the next one is computed.
        kept = min(2, shape.layers) if learner.activation_offloading else shape.layers
        return kept * _block_input(shape, tokens) + block + passing
    return int((shape.layers - 1 + _LAST_BLOCK) * block) + passing
