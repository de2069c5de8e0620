"""Whether a run fits into this machine's memory, asked before anything starts."""

from __future__ import annotations

from pathlib import Path

import psutil

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runtime.learner_memory import SMALL_VOCABULARY, learner_estimate, policy_size

GIB = 1 << 30


# Resident memory measured on Linux x86-64 with the CPU build of torch.
DRIVER_AND_RAY_BYTES = int(1.2 * GIB)


WORKER_BYTES = int(0.6 * GIB)


VLLM_BYTES = int(0.4 * GIB)  # its modules and smallest cache


OBJECT_STORE_BYTES = 256 << 20
GPU_WORKER_BYTES = int(3 * GIB)  # an engine that computes on a GPU: torch with CUDA and vLLM in one or two processes


def needed_bytes(config: Config, parameters: int) -> int:
    """A lower estimate of the memory a run needs on one machine: processes, weights, optimizer and activations.

    Args:
        config: of the run.
        parameters: of the small policy; those of ``policy.path`` are counted from its ``config.json``.
    """
    estimate = learner_estimate(config, parameters)
    # On a GPU only what lies here between updates, and the copies on their way to engines and disk.
    here = estimate.weights + estimate.moments + estimate.reference + estimate.publishing
    learner = WORKER_BYTES + (here if config.learner.gpus else estimate.total)
    shape, parameters = policy_size(config.policy, parameters)
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


def small_policy_parameters(config: Config, vocabulary: int = SMALL_VOCABULARY) -> int:
    """Parameters of the configured small policy (untied embeddings), for estimates before it is made."""
    policy = config.policy
    attention = 4 * policy.hidden_size * policy.hidden_size
    feed_forward = 3 * policy.hidden_size * policy.intermediate_size
    return policy.layers * (attention + feed_forward) + 2 * vocabulary * policy.hidden_size


def check_memory(config: Config) -> None:
    """Refuse a run that would be killed half-way.

    On a cluster nothing is refused here: its actors run elsewhere, and the learner looks for itself.

    Raises:
        RunError: says how much is needed, how much is there and what to lower.
    """
    if config.run.ray_address is not None:
        return
    parameters = small_policy_parameters(config)
    needed, available = needed_bytes(config, parameters), available_bytes()
    if needed > available:
        surgery = config.grouping.gradient_surgery != "none"
        raise RunError(
            f"not enough memory: this run needs about {needed / GIB:.1f} GiB, of which its learner "
            f"{learner_estimate(config, parameters)}, and {available / GIB:.1f} GiB are free; "
            f"lower rollout.actors ({config.rollout.actors}), inference.max_concurrent_decisions, "
            "learner.tokens_per_microbatch or the policy's size"
            + (", or set grouping.gradient_surgery = none" if surgery else "")
        )
