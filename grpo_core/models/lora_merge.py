"""Full weights from a base and a LoRA adapter, without ``peft``: for engines, which import neither it nor a trainer."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from grpo_core.errors import CheckpointError

_PREFIX = "base_model.model."  # of every name in a file of peft's
_A, _B = ".lora_A.weight", ".lora_B.weight"
_FINGERPRINT = "weights-"
_SAMPLE = 64  # values of each tensor that a fingerprint looks at
# peft's options under which a layer computes something else than W x + scale B A x.
_NOT_PLAIN = (
    *("use_dora", "use_qalora", "use_bdlora", "lora_bias", "fan_in_fan_out", "rank_pattern", "alpha_pattern"),
    *("modules_to_save", "trainable_token_indices", "target_parameters", "layer_replication"),
    *("alora_invocation_tokens", "arrow_config", "velora_config", "monteclora_config", "kasa_config"),
)
_HARMLESS_BEGINNINGS = (None, True, False, "gaussian", "orthogonal", "eva")


@dataclass(frozen=True, slots=True)
class Lora:
    """What an adapter's configuration says about merging it."""

    rank: int
    scale: float  # lora_alpha / rank; with use_rslora lora_alpha / sqrt(rank) (arXiv 2312.03732)
    base: str | None  # fingerprint of the base it was trained in; None: not recorded

    @classmethod
    def of(cls, text: str) -> Self:
        """Read peft's ``adapter_config.json``.

        Raises:
            CheckpointError: not JSON, not LoRA, or LoRA of another kind than the plain one.
        """
        try:
            config = json.loads(text)
            kind, rank, alpha = config["peft_type"], config["r"], float(config["lora_alpha"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"the adapter's configuration cannot be read: {error!r}") from error
        special = [name for name in _NOT_PLAIN if config.get(name)]
        special += ["bias"] if config.get("bias", "none") != "none" else []
        # Some beginnings (PiSSA, OLoRA, ...) change the base as well.
        special += ["init_lora_weights"] if config.get("init_lora_weights") not in _HARMLESS_BEGINNINGS else []
        if kind != "LORA" or special:
            raise CheckpointError(f"only plain LoRA adapters can be merged: this is {kind} with {special or 'nothing'}")
        if not isinstance(rank, int) or rank < 1 or not math.isfinite(alpha):
            raise CheckpointError(f"the adapter's configuration has r {rank!r} and lora_alpha {alpha!r}")
        revision = config.get("revision")
        known = isinstance(revision, str) and revision.startswith(_FINGERPRINT)
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        return cls(rank, scale, revision if known else None)


def merge(base: Mapping[str, Tensor], lora: Lora, adapter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The base's tensors, those of adapted layers replaced by ``W + scale B A`` (see ``adapters.merged``).

    Raises:
        CheckpointError: names or shapes do not fit, or it is another base than the adapter was trained in.
    """
    pairs = _pairs(base, lora, adapter)
    if lora.base is not None and lora.base != fingerprint(base):
        raise CheckpointError("the adapter was trained in other weights than these; take both from the same run")
    full = dict(base)
    for name, (a, b) in pairs.items():
        weight = base[name]
        # Copies: inside a payload tensors are not aligned to what vector units like.
        a, b = (factor.to(weight.device, torch.float32, copy=True) for factor in (a, b))
        full[name] = (weight.float() + (b @ a) * lora.scale).to(weight.dtype)
    return full


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """Names weights by a digest of their names, shapes and some values, the same in float32 as in bfloat16."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        flat = tensors[name].detach().flatten()
        # Zero is added because a merge with nothing turns -0 into 0.
        values = flat[:: max(1, len(flat) // _SAMPLE)].float().add(0.0).bfloat16().view(torch.int16)
        digest.update(f"{name} {tuple(tensors[name].shape)} ".encode())
        digest.update(values.cpu().numpy().tobytes())
    return f"{_FINGERPRINT}{digest.hexdigest()[:16]}"


def _pairs(base: Mapping[str, Tensor], lora: Lora, adapter: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Name in the base -> (A, B), checked."""
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
