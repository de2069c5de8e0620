"""Which engines a rollout actor hosts, and how they are made from the run's configuration."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cluster.configs.schema import Config

if TYPE_CHECKING:
    from services.inference.engine import Engine
    from services.settings import InferenceSettings

# Of a GPU's share for inference, what the learner's engine keeps where opponents have one of their own.
LEARNERS_SHARE = 0.6


def engine_kind(config: Config) -> Literal["torch", "vllm"]:
    """What ``inference.engine`` means on this machine: ``auto`` is vLLM where it is installed and a GPU is there."""
    if config.inference.engine != "auto":
        return config.inference.engine
    import torch

    from services.inference.vllm_backend.startup import vllm_installed

    return "vllm" if torch.cuda.is_available() and vllm_installed() else "torch"


def make_engine(config: Config, folder: Path) -> tuple[Engine, Any]:
    """An engine that runs a folder's model as the learner's version 0, and the folder's tokenizer.

    Raises:
        CheckpointError: the folder is not a usable model.
        EngineError: the engine cannot start; says what to change.
    """
    import torch

    from grpo_core.models.pretrained import load_tokenizer

    inference = config.inference
    torch.set_num_threads(inference.threads)
    tokenizer = load_tokenizer(folder)
    if engine_kind(config) == "torch":
        return _torch_engine(config, folder), tokenizer
    on_gpu = torch.cuda.is_available()
    if not _needs_second_engine(config, folder, on_gpu):
        return _vllm_engine(config, folder, inference, on_gpu), tokenizer
    from services.inference.paired_engine import PairedEngine

    if not on_gpu:  # the torch engine holds any number of small policies at once
        return PairedEngine(_vllm_engine(config, folder, inference, on_gpu), _torch_engine(config, folder)), tokenizer
    total = inference.gpu_memory_utilization
    learners, opponents = (
        inference.model_copy(update={"gpu_memory_utilization": total * share, "engine_process": "own"})
        for share in (LEARNERS_SHARE, 1 - LEARNERS_SHARE)
    )
    return (
        PairedEngine(_vllm_engine(config, folder, learners, on_gpu), _vllm_engine(config, folder, opponents, on_gpu)),
        tokenizer,
    )


def spare_what_is_loaded() -> None:
    """Let garbage collections pass over all that is alive now: torch, vLLM and transformers, some 800,000 objects.

    Games make and drop objects all the time; looking through those took a third of an actor's time outside its engine.
    """
    gc.collect()
    gc.freeze()


def second_engine_fits(
    weight_bytes: int, cache_bytes: int, memory_bytes: int, utilization: float, learners_share: float = LEARNERS_SHARE
) -> bool:
    """Whether a GPU holds the model twice, each time with keys and values for all decisions in flight.

    Args:
        weight_bytes: of the model on this GPU.
        cache_bytes: keys and values of ``inference.max_concurrent_decisions`` at the full length of the context.
        memory_bytes: of the GPU.
        utilization: share of it that inference may take.
        learners_share: of that, what the learner's engine gets; the other gets the rest.
    """
    smaller = utilization * min(learners_share, 1 - learners_share)
    return weight_bytes + cache_bytes <= smaller * memory_bytes


def _needs_second_engine(config: Config, folder: Path, on_gpu: bool) -> bool:
    """Only snapshots of a policy without adapters are full weights."""
    wanted = config.inference.opponent_engine
    if config.policy.use_peft or not config.opponents.snapshot_every or wanted == "turns":
        return False
    if wanted == "second" or not on_gpu:
        return True
    import torch

    from services.inference.vllm_backend.startup import kv_cache_bytes

    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    gpus = config.inference.tensor_parallel_size
    _, memory = torch.cuda.mem_get_info()
    return second_engine_fits(
        weights // gpus,
        kv_cache_bytes(folder, config.inference, config.policy.context_length) // gpus,
        memory,
        config.inference.gpu_memory_utilization,
    )


def _torch_engine(config: Config, folder: Path) -> Engine:
    from grpo_core.models.pretrained import load_model
    from services.inference.torch_backend.engine import TorchEngine

    model, _ = load_model(folder, shared_base=config.policy.specialists)
    return TorchEngine(
        model,
        max_concurrent_decisions=config.inference.max_concurrent_decisions,
        threads=config.inference.threads,
    )


def _vllm_engine(config: Config, folder: Path, inference: InferenceSettings, on_gpu: bool) -> Engine:
    from services.inference.vllm_backend.engine import VLLMEngine
    from services.inference.vllm_backend.startup import CoreOptions, start_core, weights_dtype

    learners = config.policies_per_version
    if config.policy.specialists:
        # The learner's and as many opponents' are batched together; what is beyond that waits for a place.
        inference = inference.model_copy(update={"max_loras": max(inference.max_loras, 2 * learners)})
    options = CoreOptions(
        on_gpu=on_gpu,
        context_length=config.policy.context_length,
        max_lora_rank=config.policy.lora_r if config.policy.use_peft else 0,
        # The learner's newest version, the one before while decisions finish under it, and the frozen ones.
        adapters=learners * (config.opponents.max_snapshots + 2),
        sleeps=config.rollout.share_gpu_with_learner,
    )
    core = start_core(folder, inference, options)
    return VLLMEngine(
        core,
        folder,
        keep_in_flight=inference.swap == "keep",
        dtype=weights_dtype(folder, inference),
        context_length=config.policy.context_length,
        swap_timeout_s=config.rollout.swap_timeout_s,
    )
