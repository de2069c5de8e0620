"""Starts vLLM from the settings; errors explain in one line why it did not start."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_core.errors import one_line
from grpo_core.files import read_json
from services.inference.engine import EngineError
from services.inference.vllm_backend.core import InlineCore, ProcessCore, VLLMCore, prepare_environment
from services.inference.vllm_backend.llvm_binding import hidden_llvm_binding
from services.settings import InferenceSettings

MASK_CLASS = "services.inference.vllm_backend.logits_processor:SheetMask"
WORKER_EXTENSION = "services.inference.vllm_backend.worker_extension.WeightsExtension"
_MIB = 1 << 20
# Bounds of a CPU's KV cache: all decisions together often need little, and kept prefixes gain little more.
_CPU_CACHE_MIB = (64, 2048)
_CPU_TOKENS_PER_STEP = 2048
_CPU_BLOCK = 32  # tokens; prefixes are shared in whole blocks, and the default 128 exceeds a small policy's prompt
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # the limits that vLLM can be started with
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def vllm_installed() -> bool:
    """Return whether vLLM is installed; it is not imported."""
    return importlib.util.find_spec("vllm") is not None


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """Options of vLLM that are not in the section ``inference`` of the configuration."""

    on_gpu: bool  # whether this process may use a GPU
    context_length: int | None = None  # tokens of a prompt and its completion; None: as many as the model can hold
    max_lora_rank: int = 0  # highest rank of its adapters; 0: it gets no adapters
    adapters: int = 0  # policies that may be adapters at the same time, old versions in flight included
    sleeps: bool = False  # whether the GPU is shared with the learner


def start_core(folder: Path, settings: InferenceSettings, options: CoreOptions) -> VLLMCore:
    """Load a model, a folder in Hugging Face layout, into vLLM; ``EngineError`` says what to change if it fails."""
    if not vllm_installed():
        raise EngineError(
            "vLLM is not installed: `make vllm` brings its CPU build, `pip install -e '.[vllm]'` the one for GPUs; or "
            "set inference.engine = torch"
        )
    prepare_environment()
    arguments = engine_arguments(folder, settings, options)
    process = settings.engine_process
    own = process == "own" or (process == "auto" and options.on_gpu) or settings.tensor_parallel_size > 1
    try:
        with hidden_llvm_binding():
            return ProcessCore(arguments) if own else InlineCore(arguments)
    # The errors of vLLM, torch and CUDA libraries at the start have no common class.
    except Exception as error:
        raise EngineError(_start_error(error, folder, settings)) from error


def engine_arguments(folder: Path, settings: InferenceSettings, options: CoreOptions) -> dict[str, Any]:
    """Return the fields of vLLM's ``EngineArgs``."""
    config = model_config(folder)
    context = _context(config, options.context_length)
    arguments: dict[str, Any] = {
        "model": str(folder),
        "load_format": "safetensors",  # otherwise pickled weights are read from a folder without safetensors
        "skip_tokenizer_init": True,  # ids go in and ids come out
        "dtype": weights_dtype(folder, settings),
        "max_model_len": context,
        "max_num_seqs": settings.max_concurrent_decisions,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "quantization": settings.quantization,
        "enable_prefix_caching": True,
        # The learner needs the log-probabilities that were sampled from, with mask and temperature.
        "logprobs_mode": "processed_logprobs",
        "logits_processors": [MASK_CLASS],
        "worker_extension_cls": WORKER_EXTENSION,
        "async_scheduling": False,  # a mask depends on the token before
        "generation_config": "vllm",  # a folder's own defaults (top-k, top-p) would change the sampling
        "enforce_eager": settings.enforce_eager or not options.on_gpu,
        "disable_log_stats": True,
        "enable_sleep_mode": options.sleeps and options.on_gpu,
    }
    if not options.on_gpu:
        # For a prompt fed in parts vLLM rewinds the request's random generator, which a CPU's does not support.
        arguments |= {
            "enable_chunked_prefill": False,
            "block_size": _CPU_BLOCK,
            "max_num_batched_tokens": max(_CPU_TOKENS_PER_STEP, context),
        }
    if settings.kv_cache_mib is not None:
        arguments["kv_cache_memory_bytes"] = settings.kv_cache_mib * _MIB
    elif options.on_gpu:
        arguments["gpu_memory_utilization"] = settings.gpu_memory_utilization
    else:
        low, high = _CPU_CACHE_MIB
        arguments["kv_cache_memory_bytes"] = min(
            max(kv_cache_bytes(folder, settings, options.context_length), low * _MIB), high * _MIB
        )
    if options.max_lora_rank > _LORA_RANKS[-1]:
        raise EngineError(f"vLLM runs adapters of rank {_LORA_RANKS[-1]} at most; lower policy.lora_r, or set "
                          "inference.engine = torch")  # fmt: skip
    if options.max_lora_rank:
        arguments |= {
            "enable_lora": True,
            "max_lora_rank": next(rank for rank in _LORA_RANKS if rank >= options.max_lora_rank),
            "max_loras": settings.max_loras,
            "max_cpu_loras": max(options.adapters, settings.max_loras),
        }
    return arguments


def weights_dtype(folder: Path, settings: InferenceSettings) -> str:
    """Return the number format of the weights in vLLM: ``float32``, ``bfloat16`` or ``float16``."""
    if settings.dtype != "auto":
        return settings.dtype
    config = model_config(folder)
    named = str(config.get("dtype") or config.get("torch_dtype"))
    return named if named in _BYTES else "bfloat16"


def kv_cache_bytes(folder: Path, settings: InferenceSettings, context_length: int | None = None) -> int:
    """Return the bytes of keys and values of ``max_concurrent_decisions`` at the full length of the context."""
    config = model_config(folder)
    query_heads = size_of(config, "num_attention_heads")
    heads = size_of(config, "num_key_value_heads") if config.get("num_key_value_heads") else query_heads
    width = size_of(config, "head_dim") if config.get("head_dim") else size_of(config, "hidden_size") // query_heads
    token = 2 * size_of(config, "num_hidden_layers") * heads * width * _BYTES[weights_dtype(folder, settings)]
    return token * _context(config, context_length) * settings.max_concurrent_decisions


def model_config(folder: Path) -> Mapping[str, Any]:
    """Return a model's ``config.json``; ``EngineError`` if it cannot be read."""
    return _read_table(folder / "config.json")


def generation_config(folder: Path) -> Mapping[str, Any]:
    """Return a model's ``generation_config.json``, empty if it has none; ``EngineError`` if it cannot be read."""
    file = folder / "generation_config.json"
    return _read_table(file) if file.is_file() else {}


def size_of(config: Mapping[str, Any], name: str) -> int:
    """Return a size in a model's configuration; ``EngineError`` if it is missing or no number from 1 on."""
    size = config.get(name)
    if type(size) is not int or not 0 < size < 1 << 31:
        shown = one_line(repr(size), 40)
        raise EngineError(
            f"vLLM needs {name} in the model's config.json, and it is {shown}; set inference.engine = torch"
        )
    return size


def _context(config: Mapping[str, Any], configured: int | None) -> int:
    return min(size_of(config, "max_position_embeddings"), configured or sys.maxsize)


def _read_table(file: Path) -> Mapping[str, Any]:
    try:
        table = read_json(file)
    except OSError as error:
        raise EngineError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise EngineError(f"{file} is not JSON: {one_line(error, 200)}") from error
    if not isinstance(table, dict):
        raise EngineError(f"{file} is no table")
    return table


def _start_error(error: BaseException, folder: Path, settings: InferenceSettings) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    lower = text.lower()
    if "memory" in lower or "kv cache" in lower:
        advice = (
            f"lower inference.gpu_memory_utilization ({settings.gpu_memory_utilization}) if others use the GPU, "
            "policy.context_length, inference.kv_cache_mib or inference.max_concurrent_decisions "
            f"({settings.max_concurrent_decisions}), or raise inference.tensor_parallel_size"
        )
        return f"vLLM found too little memory for {folder}: {text[:300]}; {advice}"
    if "architecture" in lower and ("support" in lower or "not found" in lower):
        return f"vLLM does not know the model in {folder}: {text[:300]}; set inference.engine = torch"
    if "safetensors" in lower or "weights" in lower or isinstance(error, FileNotFoundError):
        return f"vLLM cannot read the weights in {folder}: {text[:300]}; copy the folder again"
    return f"vLLM did not start on {folder}: {type(error).__name__}: {text[:400]}; its log above says more"
