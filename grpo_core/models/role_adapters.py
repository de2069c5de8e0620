"""One adapter a role over one frozen base: each is trained on its role's turns alone, and all are kept together.

Every adapter has the same rank, scale and target layers, and begins with the same random ``A`` (and ``B = 0``): what
comes to distinguish two roles are their games, not the luck of a start. Outside ``active_role`` none is active and the
model computes as the base.

Their gradients have nothing to do with one another, so each role is normalised and clipped by itself: its adapter is
trained as one alone would be, on its episodes alone.
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


def add_role_adapters(model: PreTrainedModel, settings: PolicySettings, seed: int, roles: Sequence[str]) -> PeftModel:
    """Freeze a model and put an adapter for each role into it, each as ``add_adapters`` makes one.

    Args:
        model: changed in place.
        settings: ``lora_r``, ``lora_alpha`` and ``lora_target_modules``.
        seed: of the first ``A``, which all share.
        roles: names without dots, in the order in which they are trained.

    Raises:
        ValueError: no role, one named twice, a name that cannot be one, or as ``add_adapters`` does.
    """
    if not roles or len(set(roles)) < len(roles):
        raise ValueError(f"specialists need roles, each named once, not {list(roles)}")
    parts = {part for name, _ in model.named_parameters() for part in name.split(".")}
    # peft tells the tensors of adapters apart by parts of their names.
    wrong = [role for role in roles if not role or "." in role or role == ONLY or role in "lora_" or role in parts]
    if wrong:
        raise ValueError(f"an adapter cannot be called {wrong[0]!r}")
    wrapped = add_adapters(model, settings, seed, name=roles[0])
    first: Any = wrapped.peft_config[roles[0]]
    for role in roles[1:]:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            # A copy of what the first one's targets turned out to be: adapted layers are no longer found as linear.
            wrapped.add_adapter(role, copy.deepcopy(first))
    for name, parameter in wrapped.named_parameters():
        parameter.requires_grad_(".lora_" in name)  # peft trains only the active one
    for layer in adapter_layers(wrapped):
        layer._active_adapter = []
    wrapped.eval()
    return wrapped


def adapter_roles(model: nn.Module) -> tuple[str, ...]:
    """The roles that have adapters of their own, in order; empty where one policy plays all."""
    adapters: Mapping[str, object] = getattr(model, "peft_config", {})
    return tuple(role for role in adapters if role != ONLY)


@contextmanager
def active_role(model: nn.Module, role: str | None) -> Iterator[None]:
    """Let the model compute, forwards and backwards, under a role's adapter; None leaves it as it is.

    Which adapters are trained does not change: peft's own ``set_adapter`` would freeze the others.

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
    """The turns of each specialist in the model's order, those without any left out; of a generalist all, for None.

    Args:
        model: with or without specialists.
        turns: of a batch.
        roles: by episode.

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
    """Scale the gradients of each role's adapter down to ``max_norm``; without roles those of all parameters together.

    Returns:
        The norm before, the largest of the roles'; not finite where any is not.
    """
    owned = [[value for name, value in named.items() if name.endswith(f".{role}.weight")] for role in roles]
    owned = owned or [list(named.values())]
    norms = [float(whole(nn.utils.clip_grad_norm_(parameters, max_norm))) for parameters in owned]
    return max(norms) if all(map(math.isfinite, norms)) else math.nan


def role_adapter_payloads(model: nn.Module) -> dict[str, bytes]:
    """Each role's adapter as ``adapter_payload`` gives one; engines and snapshots take them as any adapter."""
    return {role: adapter_payload(model, role) for role in adapter_roles(model)}


def save_role_adapters(model: nn.Module, folder: Path) -> None:
    """Write ``folder/<ROLE>/`` in peft's layout for each role."""
    for role in adapter_roles(model):
        save_adapters(model, folder / role, role)


def load_role_adapters(model: nn.Module, folder: Path) -> None:
    """Take all roles' weights from ``save_role_adapters``' folder.

    Raises:
        CheckpointError: an adapter is missing, damaged, or of another shape.
    """
    for role in adapter_roles(model):
        load_adapters(model, folder / role, role)


def saved_roles(folder: Path) -> tuple[str, ...]:
    """The roles whose adapters ``save_role_adapters`` wrote into a folder, sorted; empty of any other folder."""
    return tuple(sorted(path.parent.name for path in folder.glob(f"*/{CONFIG_FILE}")))
