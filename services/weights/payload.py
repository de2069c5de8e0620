"""A published policy on its way to the engines: safetensors bytes with their version and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pickle import PickleBuffer  # a marker for buffers that travel beside a message; nothing is unpickled here
from typing import Any, SupportsIndex

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

from grpo_core.errors import EntenteError
from grpo_core.models.weight_probe import Probe
from grpo_core.types import PolicyVersion


class WeightsError(EntenteError, ValueError):
    """These bytes are not the weights they should be; the message names the version."""


@dataclass(frozen=True, slots=True)
class RolePart:
    """One role's share of a payload of specialists."""

    role: str
    size: int  # bytes
    probe: Probe | None  # what the learner computes as this role


@dataclass(frozen=True, slots=True)
class Payload:
    """One version of the policy's weights: full ones, an adapter's, or those of an adapter for each of several roles.

    Processes that share an object store share ``data`` in it: it is offered as an out-of-band buffer, so that it
    arrives as a read-only view of the store, copied once however many actors read it.
    """

    version: int  # the learner's update count; 0 = initial weights
    data: bytes | memoryview  # safetensors; of specialists one file after another, as ``parts`` say
    checksum: str  # SHA-256 of ``data`` (behind the roles and sizes of the parts, if any), lower-case hexadecimal
    probe: Probe | None = None  # what the learner computes with them, for engines to compare
    parts: tuple[RolePart, ...] = ()  # of specialists, who have no common probe

    @property
    def policy_version(self) -> PolicyVersion:
        """How the rest of the system names these weights."""
        return PolicyVersion(number=self.version, checksum=self.checksum)

    @property
    def by_role(self) -> dict[str, tuple[memoryview, Probe | None]]:
        """Each specialist's safetensors bytes, which are not copied, and its probe; empty where there are no parts."""
        view, start = memoryview(self.data), 0
        found: dict[str, tuple[memoryview, Probe | None]] = {}
        for part in self.parts:
            found[part.role] = view[start : start + part.size], part.probe
            start += part.size
        return found

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Callable[..., Payload], tuple[object, ...]]:
        data = PickleBuffer(self.data) if protocol.__index__() >= 5 else bytes(self.data)
        return _restore, (self.version, data, self.checksum, self.probe, self.parts)


def _restore(
    version: int, data: bytes | PickleBuffer, checksum: str, probe: Probe | None, parts: tuple[RolePart, ...]
) -> Payload:
    view = data if isinstance(data, bytes) else memoryview(data).toreadonly()
    return Payload(version, view, checksum, probe, parts)


def pack(version: int, tensors: Mapping[str, torch.Tensor | NDArray[Any]]) -> Payload:
    """The named tensors (any device, any strides; tied ones are written out in full) as a payload.

    Raises:
        WeightsError: there are none, or one is of a type that safetensors cannot hold.
    """
    if not tensors:
        raise WeightsError(f"version {version} has no tensors")
    seen: set[int] = set()
    plain: dict[str, torch.Tensor] = {}
    for name in sorted(tensors):  # the same weights give the same bytes, in whatever order they come
        value = tensors[name]
        tensor = torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value.detach()
        tensor = tensor.to("cpu").contiguous()
        storage = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if storage in seen else tensor  # safetensors refuses shared storage
        seen.add(storage)
    try:
        return seal(version, safetensors.torch.save(plain))
    except (SafetensorError, ValueError, KeyError) as error:
        raise WeightsError(f"version {version} cannot be written as safetensors: {error}") from error


def seal(version: int, data: bytes, probe: Probe | None = None) -> Payload:
    """A payload of bytes that already are safetensors."""
    return Payload(version=version, data=data, checksum=_checksum(data, ()), probe=probe)


def seal_roles(version: int, specialists: Mapping[str, tuple[bytes, Probe | None]]) -> Payload:
    """One payload of several roles' adapters, each bytes that already are safetensors, with what it computes.

    Raises:
        WeightsError: there is no role.
    """
    if not specialists:
        raise WeightsError(f"version {version} has no specialist")
    parts = tuple(RolePart(role, len(data), probe) for role, (data, probe) in specialists.items())
    data = b"".join(data for data, _ in specialists.values())
    return Payload(version=version, data=data, checksum=_checksum(data, parts), parts=parts)


def verify(payload: Payload) -> None:
    """Checks that the bytes are the ones that were packed.

    Raises:
        WeightsError: they are not.
    """
    found = _checksum(payload.data, payload.parts)
    if found != payload.checksum:
        raise WeightsError(
            f"weights of version {payload.version} are damaged: {len(payload.data)} bytes with SHA-256 "
            f"{found[:12]}..., expected {payload.checksum[:12]}..."
        )


def unpack(payload: Payload) -> dict[str, torch.Tensor]:
    """The verified tensors by name, on the CPU.

    Raises:
        WeightsError: damaged, no safetensors, or those of several specialists.
    """
    verify(payload)
    if payload.parts:
        raise WeightsError(f"weights of version {payload.version} are several specialists': read them by_role")
    try:
        tensors: dict[str, torch.Tensor] = safetensors.torch.load(bytes(payload.data))
    except (SafetensorError, ValueError, KeyError) as error:
        raise WeightsError(f"weights of version {payload.version} are no safetensors: {error}") from error
    return tensors


def _checksum(data: bytes | memoryview, parts: tuple[RolePart, ...]) -> str:
    digest = hashlib.sha256("".join(f"{part.role} {part.size}\n" for part in parts).encode())
    digest.update(data)
    return digest.hexdigest()
