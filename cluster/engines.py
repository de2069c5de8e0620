"""Which engine a rollout actor hosts, and how it is made from the run's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cluster.config import Config

if TYPE_CHECKING:
    from services.inference.engine import Engine


def engine_kind(config: Config) -> Literal["torch", "vllm"]:
    """What ``inference.engine`` means on this machine: ``auto`` is vLLM where it is installed and a GPU is there."""
    if config.inference.engine != "auto":
        return config.inference.engine
    import torch

    from services.inference.vllm_start import vllm_installed

    return "vllm" if torch.cuda.is_available() and vllm_installed() else "torch"


def make_engine(config: Config, folder: Path) -> tuple[Engine, Any]:
    """An engine that runs a folder's model as the learner's version 0, and the folder's tokenizer.

    Raises:
        CheckpointError: the folder is not a usable model.
        EngineError: the engine cannot start; says what to change.
    """
    import torch

    inference = config.inference
    torch.set_num_threads(inference.threads)
    if engine_kind(config) == "torch":
        from grpo_core.models import load_model
        from services.inference.torch_engine import TorchEngine

        model, tokenizer = load_model(folder)
        torch_engine = TorchEngine(
            model, max_concurrent_decisions=inference.max_concurrent_decisions, threads=inference.threads
        )
        return torch_engine, tokenizer
    from grpo_core.models import load_tokenizer
    from services.inference.agreement import TOLERANCE
    from services.inference.vllm_engine import VLLMEngine
    from services.inference.vllm_start import start_core, weights_type

    tokenizer = load_tokenizer(folder)
    core = start_core(
        folder,
        inference,
        on_gpu=torch.cuda.is_available(),
        max_lora_rank=config.policy.lora_r if config.policy.use_peft else 0,
        # The learner's newest version, the one before while decisions finish under it, and the frozen ones.
        adapters=config.opponents.max_snapshots + 2,
        sleeps=config.rollout.share_gpu_with_learner,
    )
    numbers = "bfloat16" if config.learner.bf16 else weights_type(folder, inference)
    engine = VLLMEngine(core, folder, keep_in_flight=inference.swap == "keep", probe_tolerance=TOLERANCE[numbers])
    return engine, tokenizer
