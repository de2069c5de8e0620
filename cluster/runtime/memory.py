"""Checks before anything starts whether a run fits into this machine's memory."""

from __future__ import annotations

from pathlib import Path

import psutil

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runtime.learner_memory import learner_estimate, policy_size

GIB = 1 << 30
# Resident memory measured on Linux x86-64 with the CPU build of torch.
DRIVER_AND_RAY_BYTES = int(1.2 * GIB)
WORKER_BYTES = int(0.6 * GIB)
VLLM_BYTES = int(0.4 * GIB)  # its modules and smallest cache
OBJECT_STORE_BYTES = 256 << 20
GPU_WORKER_BYTES = int(3 * GIB)  # an engine that computes on a GPU: torch with CUDA and vLLM in one or two processes


def needed_bytes(config: Config) -> int:
    """Lower estimate of the memory a run needs on one machine: processes, weights, optimizer and activations."""
    estimate = learner_estimate(config)
    # A learner on a GPU keeps here its state between updates, and copies on their way to engines and disk.
    here = estimate.weights + estimate.moments + estimate.reference + estimate.publishing
    learner = WORKER_BYTES + (here if config.learner.gpus else estimate.total)
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
