"""How much memory a run and its learner will need, from files alone: before anything starts or a model is loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import psutil

from cluster.configs.schema import Config
from cluster.errors import RunError
from grpo_core.errors import CheckpointError
from grpo_core.files import read_json
from grpo_core.settings import PolicySettings
from grpo_core.training.memory_estimate import MemoryEstimate, ModelShape, estimate_memory
from opponents.champion.shipped import starting_folder

GIB = 1 << 30
LARGEST_SIZE = 1 << 31  # of a dimension of any model
SMALL_VOCABULARY = 512  # about that of the small policy
# Resident memory measured on Linux x86-64 with the CPU build of torch.
DRIVER_AND_RAY_BYTES = int(1.2 * GIB)
WORKER_BYTES = int(0.6 * GIB)
VLLM_BYTES = int(0.4 * GIB)  # its modules and smallest cache
OBJECT_STORE_BYTES = 256 << 20
GPU_PEER_BYTES = int(2 * GIB)  # a process of the learner that only computes on its GPU: torch with CUDA
GPU_WORKER_BYTES = int(3 * GIB)  # an engine that computes on a GPU: torch with CUDA and vLLM in one or two processes


def needed_bytes(config: Config) -> int:
    """Lower estimate of the memory a run needs on one machine: processes, weights, optimizer and activations."""
    estimate, peers = learner_estimate(config), config.learner.processes - 1
    # A learner on a GPU keeps here its state between updates, and copies on their way to engines and disk.
    here = estimate.weights + estimate.moments + estimate.reference + estimate.on_host
    learner = WORKER_BYTES + (here if config.learner.gpus else estimate.total)
    peer = learner_estimate(config, publishes=False)
    learner += peers * (GPU_PEER_BYTES + peer.on_host if config.learner.gpus else WORKER_BYTES + peer.total)
    shape, parameters = policy_size(config.policy)
    cache_row = 2 * shape.layers * shape.key_value * 4 * config.policy.context_length
    rollout = WORKER_BYTES + 2 * 4 * parameters + cache_row * config.inference.max_concurrent_decisions
    if config.inference.engine == "vllm":
        rollout += VLLM_BYTES
    if config.rollout.gpus_per_actor:
        rollout = GPU_WORKER_BYTES + 2 * parameters  # of a sleeping engine
    return DRIVER_AND_RAY_BYTES + OBJECT_STORE_BYTES + learner + config.rollout.actors * rollout


def available_bytes() -> int:
    """Memory this process may still take, container limits included."""
    available = int(psutil.virtual_memory().available)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists():
        text = limit.read_text().strip()
        if text.isdigit():
            available = min(available, int(text) - int(used.read_text()))
    return available


def check_memory(config: Config) -> None:
    """Raise RunError for a local run that would run out of memory; on a cluster the learner checks its own machine."""
    if config.run.ray_address is not None:
        return
    needed, available = needed_bytes(config), available_bytes()
    if needed > available:
        surgery = config.grouping.gradient_surgery != "none"
        raise RunError(
            f"not enough memory: this run needs about {needed / GIB:.1f} GiB, of which its learner "
            f"{learner_estimate(config)}, and {available / GIB:.1f} GiB are free; "
            f"lower rollout.actors ({config.rollout.actors}), inference.max_concurrent_decisions, "
            "learner.tokens_per_microbatch or the policy's size"
            + (", or set grouping.gradient_surgery = none" if surgery else "")
        )


def learner_estimate(config: Config, *, publishes: bool = True) -> MemoryEstimate:
    """Estimate what the learner will hold, with the formula that it applies to its loaded model.

    ``publishes``: whether it is the first of the learner's processes.
    """
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
        processes=config.learner.processes,
        publishes=publishes,
        on_gpu=config.learner.gpus > 0,
    )


def checkpoint_bytes(config: Config) -> int:
    """Estimate the size of a checkpoint: float32 weights, adapters merged and beside them, and the optimizer."""
    shape, parameters = policy_size(config.policy)
    if not config.policy.use_peft:
        return 12 * parameters
    return 4 * parameters + 12 * adapter_parameters(config.policy, shape) * config.policies_per_version


def policy_size(policy: PolicySettings) -> tuple[ModelShape, int]:
    """Return the shape and number of parameters of the policy that a run starts from.

    For ``policy.path`` they come from its ``config.json``, with blocks like Llama's or Qwen's. If that file is
    unusable, the policy counts as the small one; loading it reports the error.
    """
    if policy.path is not None:
        try:
            model = SimpleNamespace(**read_json(starting_folder(policy.path) / "config.json"))
            shape = ModelShape.of(model)
            matrices = 1 if getattr(model, "tie_word_embeddings", True) else 2
        except (CheckpointError, OSError, ValueError, TypeError, AttributeError, ZeroDivisionError, OverflowError):
            pass
        else:
            if all(type(size) is int and 0 < size <= LARGEST_SIZE for size in dataclasses.astuple(shape)):
                attention = 2 * shape.hidden * (shape.query + shape.key_value)
                feed_forward = 3 * shape.hidden * shape.feed_forward
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
