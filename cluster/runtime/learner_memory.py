"""How much memory a config's learner will need, from files alone: before a process is started or a model loaded."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from cluster.configs.schema import Config
from grpo_core.settings import PolicySettings
from grpo_core.training.memory_estimate import MemoryEstimate, ModelShape, estimate_memory

SMALL_VOCABULARY = 512  # about that of the small policy


def learner_estimate(config: Config, small_parameters: int) -> MemoryEstimate:
    """What the learner will hold, by the same count that it makes of its loaded model.

    Args:
        config: of the run.
        small_parameters: see ``policy_size``.
    """
    shape, parameters = policy_size(config.policy, small_parameters)
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


def policy_size(policy: PolicySettings, small_parameters: int) -> tuple[ModelShape, int]:
    """Shape and parameters of the policy that a run starts from.

    Those of ``policy.path`` come from its ``config.json``, its blocks taken as Llama's or Qwen's. A file that tells
    nothing is named by who loads it; here the policy counts as the small one.

    Args:
        policy: the settings.
        small_parameters: of the small policy.
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
    return ModelShape(
        SMALL_VOCABULARY, width, policy.layers, width, key_value, policy.intermediate_size
    ), small_parameters


def adapter_parameters(policy: PolicySettings, shape: ModelShape) -> int:
    """Numbers of the LoRA adapters at those linear layers that ``policy.lora_target_modules`` names.

    Layers are known by their names in Llama, Mistral and Qwen; others count nothing.
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
