"""Which engines a rollout actor hosts, and how they are made from the run's configuration."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.configs.schema import Config

if TYPE_CHECKING:
    from services.inference.engine import Engine
    from services.settings import InferenceSettings

# The learner's engine gets this part of the GPU memory for inference if opponents have an engine of their own.
LEARNERS_SHARE = 0.6


def make_engine(config: Config, folder: Path) -> tuple[Engine, Any]:
    """Make an engine that runs a folder's model as the learner's version 0; returns it and the folder's tokenizer.

    Raises CheckpointError if the folder is not a usable model; EngineError if the engine cannot start.
    """
    import torch

    from grpo_core.models.pretrained import load_tokenizer

    inference, policy = config.inference, config.policy
    torch.set_num_threads(inference.threads)
    tokenizer = load_tokenizer(folder)
    on_gpu = torch.cuda.is_available()
    if not _uses_vllm(inference, on_gpu):
        return _torch_engine(folder, inference, policy.specialists), tokenizer
    from services.inference.vllm_backend.engine import VLLMEngine
    from services.inference.vllm_backend.startup import CoreOptions, start_core, weights_dtype

    if policy.specialists:
        # The specialists of the learner and of as many opponents are batched together; any further ones wait.
        update = {"max_loras": max(inference.max_loras, 2 * config.policies_per_version)}
        inference = inference.model_copy(update=update)
    options = CoreOptions(
        on_gpu=on_gpu,
        context_length=policy.context_length,
        max_lora_rank=policy.lora_r if policy.use_peft else 0,
        # The learner's newest version, the one before while decisions finish under it, and the frozen ones.
        adapters=config.policies_per_version * (config.opponents.max_snapshots + 2),
        sleeps=config.rollout.share_gpu_with_learner,
    )

    def vllm_engine(settings: InferenceSettings) -> Engine:
        return VLLMEngine(
            start_core(folder, settings, options),
            folder,
            keep_in_flight=settings.swap == "keep",
            dtype=weights_dtype(folder, settings),
            context_length=policy.context_length,
            swap_timeout_s=config.rollout.swap_timeout_s,
        )

    # Only snapshots of a policy without adapters are full weights.
    full_snapshots = config.opponents.snapshot_every and not policy.use_peft
    if not (full_snapshots and _needs_second_engine(folder, inference, policy.context_length, on_gpu)):
        return vllm_engine(inference), tokenizer
    from services.inference.paired_engine import PairedEngine

    if not on_gpu:  # the torch engine holds any number of small policies at once
        return PairedEngine(vllm_engine(inference), _torch_engine(folder, inference, policy.specialists)), tokenizer
    total = inference.gpu_memory_utilization
    learners, opponents = (
        inference.model_copy(update={"gpu_memory_utilization": total * share, "engine_process": "own"})
        for share in (LEARNERS_SHARE, 1 - LEARNERS_SHARE)
    )
    return PairedEngine(vllm_engine(learners), vllm_engine(opponents)), tokenizer


def spare_what_is_loaded() -> None:
    """Exclude all objects that are alive now from garbage collection: some 800,000 of torch, vLLM and transformers.

    Scanning them took a third of an actor's time outside its engine, because games create and drop many objects.
    """
    gc.collect()
    gc.freeze()


def second_engine_fits(weight_bytes: int, cache_bytes: int, memory_bytes: int, utilization: float) -> bool:
    """Whether a GPU of ``memory_bytes`` holds the model twice.

    ``cache_bytes`` are the keys and values of ``inference.max_concurrent_decisions`` at the full length of the context;
    ``utilization`` is the share of the GPU that inference may take.
    """
    smaller = utilization * min(LEARNERS_SHARE, 1 - LEARNERS_SHARE)
    return weight_bytes + cache_bytes <= smaller * memory_bytes


def _uses_vllm(inference: InferenceSettings, on_gpu: bool) -> bool:
    """Whether ``inference.engine`` is vLLM; ``auto`` is, if vLLM is installed and there is a GPU."""
    from services.inference.vllm_backend.startup import vllm_installed

    return inference.engine == "vllm" or (inference.engine == "auto" and on_gpu and vllm_installed())


def _needs_second_engine(folder: Path, inference: InferenceSettings, context_length: int, on_gpu: bool) -> bool:
    if inference.opponent_engine == "turns":
        return False
    if inference.opponent_engine == "second" or not on_gpu:
        return True
    import torch

    from services.inference.vllm_backend.startup import kv_cache_bytes

    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    cache = kv_cache_bytes(folder, inference, context_length)
    gpus = inference.tensor_parallel_size
    _, memory = torch.cuda.mem_get_info()
    return second_engine_fits(weights // gpus, cache // gpus, memory, inference.gpu_memory_utilization)


def _torch_engine(folder: Path, inference: InferenceSettings, shared_base: bool) -> Engine:
    from grpo_core.models.pretrained import load_model
    from services.inference.torch_backend.engine import TorchEngine

    model, _ = load_model(folder, shared_base=shared_base)
    return TorchEngine(model, max_concurrent_decisions=inference.max_concurrent_decisions, threads=inference.threads)
