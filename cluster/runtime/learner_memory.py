"""How much memory a config's learner will need, from files alone: before a process is started or a model loaded."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from cluster.configs.schema import Config
from grpo_core.settings import PolicySettings
from grpo_core.training.memory_estimate import MemoryEstimate, ModelShape, estimate_memory

SMALL_VOCABULARY = 512  # about that of the small policy


def learner_estimate(config: Config) -> MemoryEstimate:
    """Estimate what the learner will hold, with the formula that it applies to its loaded model."""
    shape, parameters = policy_size(config.policy)
    adapters = adapter_parameters(config.policy, shape) * config.policies_per_version if config.policy.use_peft else 0
    return estimate_memory(
        shape,
        config.policy,
        config.learner,
        parameters=parameters + adapters,
        trained=adapters if config.policy.use_peft else parameters,
        free_text=config.inference.decoding == "free",
        grouping=config.grouping,
    )


def policy_size(policy: PolicySettings) -> tuple[ModelShape, int]:
    """Return the shape and number of parameters of the policy that a run starts from.

    For ``policy.path`` they come from its ``config.json``, with blocks like Llama's or Qwen's. If that file is
    unusable, the policy counts as the small one; loading it reports the error.
    """
    if policy.path is not None:
        try:
            text = (Path(policy.path) / "config.json").read_text(encoding="utf-8")
            model = SimpleNamespace(**json.loads(text))
            shape = ModelShape.of(model)
        except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError):
            pass
        else:
            attention = 2 * shape.hidden * (shape.query + shape.key_value)
            feed_forward = 3 * shape.hidden * shape.feed_forward
            matrices = 1 if getattr(model, "tie_word_embeddings", True) else 2
            blocks = shape.layers * (attention + feed_forward)
            return shape, blocks + matrices * shape.vocab_size * shape.hidden
    width = policy.hidden_size
    key_value = max(policy.head_dim, width // policy.head_dim // 2 * policy.head_dim)
    shape = ModelShape(SMALL_VOCABULARY, width, policy.layers, width, key_value, policy.intermediate_size)
    return shape, small_policy_parameters(policy)


def small_policy_parameters(policy: PolicySettings) -> int:
    """Count the parameters of the small policy (untied embeddings) before it is made."""
    attention = 4 * policy.hidden_size * policy.hidden_size
    feed_forward = 3 * policy.hidden_size * policy.intermediate_size
    return policy.layers * (attention + feed_forward) + 2 * SMALL_VOCABULARY * policy.hidden_size


def adapter_parameters(policy: PolicySettings, shape: ModelShape) -> int:
    """Count the parameters of the LoRA adapters at the linear layers in ``policy.lora_target_modules``.

    Only the layer names of Llama, Mistral and Qwen are counted.
    """
    far_ends = {
        "q_proj": shape.query,
        "k_proj": shape.key_value,
        "v_proj": shape.key_value,
        "o_proj": shape.query,
        "gate_proj": shape.feed_forward,
        "up_proj": shape.feed_forward,
        "down_proj": shape.feed_forward,
    }
    targets = policy.lora_target_modules
    named = far_ends if targets == ("all-linear",) else [name for name in far_ends if name in targets]
    return policy.lora_r * shape.layers * sum(shape.hidden + far_ends[name] for name in named)
