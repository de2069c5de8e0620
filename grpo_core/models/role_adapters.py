"""One adapter per role over one frozen base, each trained on its role's turns only.

All adapters have the same rank, scale, target layers and initial weights. Outside ``active_role`` none is active and
the model computes as the base.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from grpo_core.batching.microbatches import TrainingTurn
from grpo_core.models.fsdp import whole
from grpo_core.models.lora import (
    CONFIG_FILE,
    ONLY,
    adapter_layers,
    adapter_payload,
    add_adapters,
    load_adapters,
    save_adapters,
)
from grpo_core.settings import PolicySettings

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def add_role_adapters(
    model: PreTrainedModel, settings: PolicySettings, seed: int, roles: Sequence[str], *, revision: str | None = None
) -> PeftModel:
    """Freeze a model and add an adapter for each role in place, as ``add_adapters`` does.

    ``roles`` are names without dots, in the order in which they are trained.

    Raises:
        ValueError: no role, a repeated or unusable name, or as ``add_adapters`` does.
    """
    if not roles or len(set(roles)) < len(roles):
        raise ValueError(f"specialists need roles, each named once, not {list(roles)}")
    parts = {part for name, _ in model.named_parameters() for part in name.split(".")}
    # peft distinguishes the adapters' tensors by parts of their names.
    wrong = [role for role in roles if not role or "." in role or role == ONLY or role in "lora_" or role in parts]
    if wrong:
        raise ValueError(f"an adapter cannot be called {wrong[0]!r}")
    wrapped = add_adapters(model, settings, seed, name=roles[0], revision=revision)
    first: Any = wrapped.peft_config[roles[0]]
    for role in roles[1:]:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            # A copy of the resolved targets, because all-linear no longer finds layers that have adapters.
            wrapped.add_adapter(role, copy.deepcopy(first))
    for name, parameter in wrapped.named_parameters():
        parameter.requires_grad_(".lora_" in name)  # peft trains only the active one
    for layer in adapter_layers(wrapped):
        layer._active_adapter = []
    wrapped.eval()
    return wrapped


def adapter_roles(model: nn.Module) -> tuple[str, ...]:
    """Return the roles that have their own adapters, in order; empty if one policy plays all."""
    adapters: Mapping[str, object] = getattr(model, "peft_config", {})
    return tuple(role for role in adapters if role != ONLY)


@contextmanager
def active_role(model: nn.Module, role: str | None) -> Iterator[None]:
    """Let the model compute forwards and backwards with a role's adapter; None leaves it as it is.

    ``requires_grad`` does not change: peft's own ``set_adapter`` would freeze the other adapters.

    Raises:
        ValueError: the model has no adapter for this role.
    """
    if role is None:
        yield
        return
    if role not in (roles := adapter_roles(model)):
        raise ValueError(f"there is no specialist for {role!r}; there are {', '.join(roles) or 'none'}")
    layers = adapter_layers(model)
    before = [layer._active_adapter for layer in layers]
    for layer in layers:
        layer._active_adapter = [role]
    try:
        yield
    finally:
        for layer, active in zip(layers, before, strict=True):
            layer._active_adapter = active


def turns_by_role(
    model: nn.Module, turns: Sequence[TrainingTurn], roles: Sequence[str]
) -> list[tuple[str | None, list[TrainingTurn]]]:
    """Return each specialist's turns in the model's order, without specialists that have none.

    A model without specialists gives all turns under None. ``roles`` are by episode.

    Raises:
        ValueError: a turn's role has no specialist.
    """
    specialists = adapter_roles(model)
    if not specialists:
        return [(None, list(turns))]
    parts: dict[str, list[TrainingTurn]] = {role: [] for role in specialists}
    for turn in turns:
        role = roles[turn.episode]
        if role not in parts:
            raise ValueError(f"the batch has turns of {role}, who has no specialist; there are {', '.join(parts)}")
        parts[role].append(turn)
    return [(role, own) for role, own in parts.items() if own]


def clip_by_role(named: Mapping[str, nn.Parameter], roles: Sequence[str], max_norm: float) -> float:
    """Clip each role's gradients to ``max_norm``, or without roles those of all parameters together.

    Returns the largest norm before clipping; NaN if any is not finite.
    """
    owned = [[value for name, value in named.items() if name.endswith(f".{role}.weight")] for role in roles]
    owned = owned or [list(named.values())]
    norms = [float(whole(nn.utils.clip_grad_norm_(parameters, max_norm))) for parameters in owned]
    return max(norms) if all(map(math.isfinite, norms)) else math.nan


def role_adapter_payloads(model: nn.Module) -> dict[str, bytes]:
    """Return each role's ``adapter_payload``."""
    return {role: adapter_payload(model, role) for role in adapter_roles(model)}


def save_role_adapters(model: nn.Module, folder: Path) -> None:
    """Write ``folder/<ROLE>/`` in peft's layout for each role."""
    for role in adapter_roles(model):
        save_adapters(model, folder / role, role)


def load_role_adapters(model: nn.Module, folder: Path) -> None:
    """Load all roles' weights from ``save_role_adapters``' folder.

    Raises:
        CheckpointError: an adapter is missing, damaged, or of another shape.
    """
    for role in adapter_roles(model):
        load_adapters(model, folder / role, role)


def saved_roles(folder: Path) -> tuple[str, ...]:
    """Return the roles whose adapters ``save_role_adapters`` wrote into a folder, sorted; empty for other folders."""
    return tuple(sorted(path.parent.name for path in folder.glob(f"*/{CONFIG_FILE}")))
