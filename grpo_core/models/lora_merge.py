"""Merge a LoRA adapter into a base without ``peft``, for engines, which import neither peft nor a trainer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import parse_json

_PREFIX = "base_model.model."  # peft puts it before every name in a file
_A, _B = ".lora_A.weight", ".lora_B.weight"
_FINGERPRINT = "weights-"
_LARGEST_RANK = 1 << 20
_SAMPLE = 64  # values of each tensor that a fingerprint reads
# With these options of peft a layer does not compute W x + scale B A x.
_NOT_PLAIN = (
    *("use_dora", "use_qalora", "use_bdlora", "lora_bias", "fan_in_fan_out", "rank_pattern", "alpha_pattern"),
    *("modules_to_save", "trainable_token_indices", "target_parameters", "layer_replication"),
    *("alora_invocation_tokens", "arrow_config", "velora_config", "monteclora_config", "kasa_config"),
)
_PLAIN_INITS = (None, True, False, "gaussian", "orthogonal", "eva")  # others (PiSSA, OLoRA, ...) also change the base


@dataclass(frozen=True, slots=True)
class Lora:
    """The part of an adapter's configuration that a merge needs."""

    rank: int
    scale: float  # lora_alpha / rank; with use_rslora lora_alpha / sqrt(rank) (arXiv 2312.03732)
    base: str | None  # fingerprint of the base it was trained on; None: not recorded

    @classmethod
    def of(cls, text: str) -> Self:
        """Read peft's ``adapter_config.json``.

        Raises:
            CheckpointError: it is not JSON or not plain LoRA.
        """
        try:
            config = parse_json(text)
            kind, rank, alpha = config["peft_type"], config["r"], float(config["lora_alpha"])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            reason = one_line(repr(error), 200)
            raise CheckpointError(f"the adapter's configuration cannot be read: {reason}") from error
        special = [name for name in _NOT_PLAIN if config.get(name)]
        special += ["bias"] if config.get("bias", "none") != "none" else []
        special += ["init_lora_weights"] if config.get("init_lora_weights") not in _PLAIN_INITS else []
        if kind != "LORA" or special:
            shown = f"{one_line(kind, 40)} with {special or 'nothing'}"
            raise CheckpointError(f"only plain LoRA adapters can be merged: this is {shown}")
        if not isinstance(rank, int) or not 1 <= rank <= _LARGEST_RANK or not math.isfinite(alpha):
            shown = f"r {one_line(repr(rank), 40)} and lora_alpha {alpha!r}"
            raise CheckpointError(f"the adapter's configuration has {shown}")
        revision = config.get("revision")
        known = isinstance(revision, str) and revision.startswith(_FINGERPRINT)
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        return cls(rank, scale, revision if known else None)


def merge(base: Mapping[str, Tensor], lora: Lora, adapter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the base's tensors with ``W + scale B A`` in the adapted layers, summed in fp32, in the type of ``W``.

    Raises:
        CheckpointError: names or shapes do not fit, or the adapter was trained on another base.
    """
    pairs = _pairs(base, lora, adapter)
    if lora.base is not None and lora.base != fingerprint(base):
        raise CheckpointError("the adapter was trained in other weights than these; take both from the same run")
    full = dict(base)
    for name, (a, b) in pairs.items():
        weight = base[name]
        # Copied because tensors inside a payload are not aligned for vector units.
        a, b = (factor.to(weight.device, torch.float32, copy=True) for factor in (a, b))
        full[name] = (weight.float() + (b @ a) * lora.scale).to(weight.dtype)
    return full


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of the tensors' names, shapes and some values, the same in float32 as in bfloat16."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        flat = tensors[name].detach().flatten()
        # Zero is added because merging an adapter of zeros turns -0 into 0.
        values = flat[:: max(1, len(flat) // _SAMPLE)].float().add(0.0).bfloat16().view(torch.int16)
        digest.update(f"{name} {tuple(tensors[name].shape)} ".encode())
        digest.update(values.cpu().numpy().tobytes())
    return f"{_FINGERPRINT}{digest.hexdigest()[:16]}"


def _pairs(base: Mapping[str, Tensor], lora: Lora, adapter: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return (A, B) by the weight's name in the base, checked."""
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for name in sorted(adapter):
        layer = name.removeprefix(_PREFIX).removesuffix(_A).removesuffix(_B)
        weight = f"{layer}.weight"
        if name not in (f"{_PREFIX}{layer}{_A}", f"{_PREFIX}{layer}{_B}"):
            raise CheckpointError(f"an adapter of another kind: it has a tensor {name}")
        if weight not in base or base[weight].dim() != 2:
            raise CheckpointError(f"the adapter changes {layer}, which is no linear layer of this model")
        a, b = (adapter.get(f"{_PREFIX}{layer}{part}") for part in (_A, _B))
        if a is None or b is None:
            raise CheckpointError(f"the adapter has only one of the two factors of {layer}")
        outputs, inputs = base[weight].shape
        if tuple(a.shape) != (lora.rank, inputs) or tuple(b.shape) != (outputs, lora.rank):
            raise CheckpointError(
                f"the adapter's factors of {layer} are {tuple(a.shape)} and {tuple(b.shape)}, expected "
                f"{(lora.rank, inputs)} and {(outputs, lora.rank)}"
            )
        pairs[weight] = a, b
    if not pairs:
        raise CheckpointError("the adapter has no tensors")
    return pairs
