"""Low-rank adapters through ``peft``: wrap a frozen model, switch the adapter off, merge it, keep it, send it.

LoRA (Hu et al., arXiv 2106.09685): a linear layer computes ``W x + (lora_alpha / lora_r) B A x`` with a frozen ``W``,
``A`` (lora_r, in) random and ``B`` (out, lora_r) 0 at first, so that training starts from the very model it wraps.

On the way to engines and in snapshots an adapter is one safetensors file: peft's tensors under peft's names, and peft's
``adapter_config.json`` as a text in the header, by which it is told from full weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from grpo_core.errors import CheckpointError
from grpo_core.models.fsdp import whole
from grpo_core.models.lora_merge import Lora, fingerprint, merge
from grpo_core.models.named_tensors import from_safetensors, metadata_of, named_tensors, to_safetensors
from grpo_core.settings import PolicySettings

if TYPE_CHECKING:  # peft takes seconds to import, which a run without adapters need not wait for
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

WEIGHTS = "adapter_model.safetensors"  # peft's own names for an adapter's two files
CONFIG_FILE = "adapter_config.json"
ONLY = "default"  # name of an adapter that is alone in its model
_CONFIG = "adapter_config"  # name of the configuration in a payload's header


def add_adapters(model: PreTrainedModel, settings: PolicySettings, seed: int, name: str = ONLY) -> PeftModel:
    """Freeze a model and put LoRA layers into it; only their ``A`` and ``B`` (fp32) are trained.

    Dropout is 0: the engine that samples has none, and the learner's log-probabilities must equal its.

    Args:
        model: changed in place; its values stay the same until the adapter is trained.
        settings: ``lora_r``, ``lora_alpha`` and ``lora_target_modules``.
        seed: of the first ``A``.
        name: of the adapter, where others are to come beside it.

    Raises:
        ValueError: a target module is not there, or is an embedding or the output layer: the learner reads the
            output layer's rows past an adapter.
    """
    from peft import get_peft_model

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        wrapped: PeftModel = get_peft_model(model, _lora_config(model, settings), adapter_name=name)
    for embedding in (wrapped.get_input_embeddings(), wrapped.get_output_embeddings()):
        if hasattr(embedding, "base_layer"):
            raise ValueError("policy.lora_target_modules names an embedding or the output layer; name linear layers of "
                             "the blocks, or all-linear")  # fmt: skip
    wrapped.eval()
    return wrapped


def _lora_config(model: PreTrainedModel, settings: PolicySettings) -> LoraConfig:
    from peft import LoraConfig

    targets = list(settings.lora_target_modules)
    return LoraConfig(
        revision=fingerprint(named_tensors(model)),
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type="CAUSAL_LM",
    )


def has_adapters(model: nn.Module) -> bool:
    """Whether ``add_adapters`` made this model (or ``specialists.add_role_adapters``)."""
    return hasattr(model, "peft_config")


def adapter_layers(model: nn.Module) -> list[Any]:
    """The layers that adapters were put into, which choose among theirs."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Let a model with adapters compute as the frozen model it wraps: a reference that takes no memory."""
    # peft's own context also freezes the adapter meanwhile, which a sharded parameter does not come back from.
    layers = adapter_layers(model)
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def merged_tensors(model: nn.Module, name: str | None = ONLY) -> dict[str, Tensor]:
    """Weights of the plain model that computes the same, under its names: ``W + (lora_alpha / lora_r) B A``.

    The sum is made in fp32 and rounded to the type of ``W``; the live model is not touched. A tensor with several names
    (tied embeddings) is there once, under its first. Of a sharded model the tensors are whole. ``name`` is the
    adapter's; None gives the weights that adapters sit on.
    """
    wrapped: Any = model
    base = wrapped.get_base_model()
    tensors: dict[str, Tensor] = {}
    for path, tensor in named_tensors(base).items():
        if ".lora_" in path:
            continue
        layer, found, leaf = path.rpartition(".base_layer.")
        value = whole(tensor.detach())
        if name is not None and found and leaf == "weight":
            delta = whole(base.get_submodule(layer).get_delta_weight(name).detach())
            value = (value.float() + delta.float()).to(value.dtype)
        tensors[f"{layer}.{leaf}" if found else path] = value
    return tensors


def adapter_payload(model: nn.Module, name: str = ONLY) -> bytes:
    """The adapter of ``add_adapters``' model for engines and snapshots; the same adapter gives the same bytes.

    Its tensors are of the adapter's own type. The configuration names no folder, but the base's ``fingerprint`` as its
    ``revision``, so that it is merged with no other.
    """
    wrapped: Any = model
    config = wrapped.peft_config[name].to_dict()
    config |= {"base_model_name_or_path": None, "inference_mode": True}
    text = json.dumps(config, sort_keys=True, default=sorted)  # what JSON has no word for are sets of names
    return to_safetensors(_adapter_tensors(model, name), {"format": "pt", _CONFIG: text})


def adapter_config_of(payload: bytes | memoryview) -> str | None:
    """The configuration (JSON) in the header of an adapter's payload; None of full weights.

    Raises:
        CheckpointError: the bytes have no safetensors header.
    """
    return metadata_of(payload).get(_CONFIG)


def merged(base: Mapping[str, Tensor], payload: bytes | memoryview) -> dict[str, Tensor]:
    """The full weights of a base under an adapter: ``W + scale B A``, summed in fp32, of the type and device of ``W``.

    The adapter is plain LoRA on linear layers, ``scale`` as in ``merging.Lora``. What it does not touch is the base's
    own tensor; tied embeddings, which ``named_tensors`` gives once, stay tied.

    Raises:
        CheckpointError: no adapter, one of another kind, or one whose names, shapes or base differ.
    """
    text = adapter_config_of(payload)
    if text is None:
        raise CheckpointError("these are full weights, where an adapter is wanted")
    return merge(base, Lora.of(text), from_safetensors(payload))


def save_adapters(model: nn.Module, folder: Path, name: str = ONLY) -> None:
    """Write the adapter in peft's layout (``adapter_config.json`` and safetensors) into a folder, made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    wrapped: Any = model
    wrapped.peft_config[name].save_pretrained(folder)
    save_file(_adapter_tensors(model, name), folder / WEIGHTS)


def load_adapters(model: nn.Module, folder: Path, name: str = ONLY) -> None:
    """Take an adapter's weights from ``save_adapters``' folder; nothing is changed where anything does not fit.

    Raises:
        CheckpointError: the file is missing, damaged, or of an adapter of another shape.
    """
    path = folder / WEIGHTS
    new = _read(path)
    own = {key: tuple(tensor.shape) for key, tensor in _adapter_tensors(model, name).items()}
    found = {key: tuple(tensor.shape) for key, tensor in new.items()}
    if own != found:
        key = min(key for key in own.keys() | found.keys() if own.get(key) != found.get(key))
        raise CheckpointError(
            f"the adapter {path} does not fit the policy: {key} is {found.get(key, 'missing')}, expected "
            f"{own.get(key, 'none')}; take lora_r and lora_target_modules from the run that wrote it"
        )
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(model, new, adapter_name=name)


def folder_payload(folder: Path) -> bytes:
    """What ``adapter_payload`` gave of the adapter that ``save_adapters`` wrote into a folder, in effect.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    try:
        text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"the adapter's configuration {folder / CONFIG_FILE} cannot be read: {error}") from error
    return to_safetensors(_read(folder / WEIGHTS), {"format": "pt", _CONFIG: text})


def _read(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the adapter {path} cannot be read: {error}") from error
    return tensors


def _adapter_tensors(model: nn.Module, name: str) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    return {key: whole(tensor.detach()).contiguous() for key, tensor in tensors.items()}
