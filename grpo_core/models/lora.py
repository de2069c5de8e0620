"""LoRA adapters (arXiv 2106.09685) through ``peft``: add, switch off, merge, save and send them.

A payload for engines and snapshots is one safetensors file: peft's tensors under peft's names, with peft's
``adapter_config.json`` as text in the header. That text distinguishes it from full weights.
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

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import check_regular, read_json
from grpo_core.models.fsdp import whole
from grpo_core.models.lora_merge import Lora, fingerprint, merge
from grpo_core.models.named_tensors import from_safetensors, metadata_of, named_tensors, to_safetensors
from grpo_core.settings import PolicySettings

if TYPE_CHECKING:  # peft takes seconds to import, which a run without adapters need not wait for
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

WEIGHTS = "adapter_model.safetensors"  # peft's names for an adapter's two files
CONFIG_FILE = "adapter_config.json"
ONLY = "default"  # the name of an adapter that is alone in its model
_CONFIG = "adapter_config"  # the configuration's name in a payload's header


def add_adapters(
    model: PreTrainedModel, settings: PolicySettings, seed: int, name: str = ONLY, *, revision: str | None = None
) -> PeftModel:
    """Freeze a model and add LoRA layers in place; only their ``A`` and ``B`` (fp32) are trained.

    ``A`` is random by ``seed`` and ``B`` is 0, so outputs do not change until the adapter is trained. There is no
    dropout, because the learner's log-probabilities must equal the engine's. ``revision`` is the ``fingerprint`` of the
    base's weights, for a process that does not have them (yet).

    Raises:
        ValueError: a target module does not exist, or is an embedding or the output layer: the learner reads the
            output layer's rows directly, without an adapter.
    """
    from peft import get_peft_model

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        wrapped: PeftModel = get_peft_model(model, _lora_config(model, settings, revision), adapter_name=name)
    for embedding in (wrapped.get_input_embeddings(), wrapped.get_output_embeddings()):
        if hasattr(embedding, "base_layer"):
            raise ValueError("policy.lora_target_modules names an embedding or the output layer; name linear layers of "
                             "the blocks, or all-linear")  # fmt: skip
    wrapped.eval()
    return wrapped


def _lora_config(model: PreTrainedModel, settings: PolicySettings, revision: str | None) -> LoraConfig:
    from peft import LoraConfig

    targets = list(settings.lora_target_modules)
    return LoraConfig(
        revision=revision or fingerprint(named_tensors(model)),
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type="CAUSAL_LM",
    )


def has_adapters(model: nn.Module) -> bool:
    """Return whether the model has one adapter or adapters by role."""
    return hasattr(model, "peft_config")


def adapter_layers(model: nn.Module) -> list[Any]:
    """Return the layers that have adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Let a model with adapters compute as its frozen base, e.g. as the KL reference without a second copy."""
    # peft's own context also freezes the adapter meanwhile, and sharded parameters stay frozen after it.
    layers = adapter_layers(model)
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def merged_tensors(model: nn.Module, name: str | None = ONLY) -> dict[str, Tensor]:
    """Return the ``merged_items`` by name."""
    return dict(merged_items(model, name))


def merged_items(model: nn.Module, name: str | None = ONLY) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights with the adapter merged, ``W + (lora_alpha / lora_r) B A``, under the plain model's names.

    The sum is made in fp32 and rounded to the type of ``W``; the model is not changed. Tied tensors appear once, under
    their first name; sharded tensors are gathered. ``name`` None gives the base's weights.
    """
    wrapped: Any = model
    base = wrapped.get_base_model()
    for path, tensor in named_tensors(base).items():
        if ".lora_" in path:
            continue
        layer, found, leaf = path.rpartition(".base_layer.")
        value = whole(tensor.detach())
        if name is not None and found and leaf == "weight":
            delta = whole(base.get_submodule(layer).get_delta_weight(name).detach())
            value = (value.float() + delta.float()).to(value.dtype)
        yield f"{layer}.{leaf}" if found else path, value


def adapter_payload(model: nn.Module, name: str = ONLY) -> bytes:
    """Return the adapter as bytes for engines and snapshots; the same adapter gives the same bytes.

    The configuration names no folder; its ``revision`` is the base's ``fingerprint``, which prevents a merge with
    another base.
    """
    wrapped: Any = model
    text = _config_text(wrapped.peft_config[name].to_dict())
    return to_safetensors(_adapter_tensors(model, name), {"format": "pt", _CONFIG: text})


def adapter_config_of(payload: bytes | memoryview) -> str | None:
    """Return the configuration (JSON) in the header of an adapter's payload, or None for full weights.

    Raises:
        CheckpointError: the bytes have no safetensors header.
    """
    return metadata_of(payload).get(_CONFIG)


def merged(base: Mapping[str, Tensor], payload: bytes | memoryview) -> dict[str, Tensor]:
    """Merge an adapter's payload into a base's full weights (see ``lora_merge.merge``).

    Raises:
        CheckpointError: it is no adapter, is not plain LoRA, or its names, shapes or base differ.
    """
    text = adapter_config_of(payload)
    if text is None:
        raise CheckpointError("these are full weights, where an adapter is wanted")
    return merge(base, Lora.of(text), from_safetensors(payload))


def save_adapters(model: nn.Module, folder: Path, name: str = ONLY) -> None:
    """Write the adapter in peft's layout (``adapter_config.json`` and safetensors); makes the folder if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    wrapped: Any = model
    wrapped.peft_config[name].save_pretrained(folder)
    save_file(_adapter_tensors(model, name), folder / WEIGHTS)


def load_adapters(model: nn.Module, folder: Path, name: str = ONLY) -> None:
    """Load an adapter's weights from ``save_adapters``' folder.

    Raises:
        CheckpointError: the file is missing, damaged, or of another shape; the model is unchanged then.
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
    """Return the payload of the adapter that ``save_adapters`` wrote: the bytes of ``adapter_payload``.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    path = folder / CONFIG_FILE
    try:
        text = _config_text(dict(read_json(path)))
    except OSError as error:
        raise CheckpointError(f"the adapter's configuration {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:  # TypeError: no table, or modules that are no names
        reason = one_line(error, 200)
        raise CheckpointError(f"the adapter's configuration {path} cannot be read: {reason}") from error
    return to_safetensors(_read(folder / WEIGHTS), {"format": "pt", _CONFIG: text})


def _config_text(config: Mapping[str, Any]) -> str:
    """Write an adapter's configuration the same way whether it was saved and loaded or not.

    peft keeps names of modules as sets, which it saves as lists in any order.
    """
    written = {**config, "base_model_name_or_path": None, "inference_mode": True}
    for name in ("target_modules", "exclude_modules"):
        if isinstance(written.get(name), set | list):
            written[name] = sorted(written[name])
    return json.dumps(written, sort_keys=True, default=sorted)  # the values JSON cannot write are sets of names


def _read(path: Path) -> dict[str, Tensor]:
    try:
        check_regular(path)
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the adapter {path} cannot be read: {one_line(error, 200)}") from error
    return tensors


def _adapter_tensors(model: nn.Module, name: str) -> dict[str, Tensor]:
    """Return what peft's ``get_peft_model_state_dict`` gives for plain LoRA, the only kind that is made here.

    peft also searches all modules for what other kinds add, which takes many times as long for each role.
    """
    ending = f".{name}.weight"
    return {
        key.removesuffix(ending) + ".weight": whole(tensor.detach()).contiguous()
        for key, tensor in model.state_dict().items()
        if ".lora_" in key and key.endswith(ending)
    }
