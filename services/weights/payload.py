"""A published policy: safetensors bytes with their version and checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pickle import PickleBuffer  # a marker for buffers that travel beside a message; nothing is unpickled here
from typing import SupportsIndex

from grpo_core.errors import EntenteError
from grpo_core.types import PolicyVersion, Probe


class WeightsError(EntenteError, ValueError):
    """These bytes are not the weights they should be; the message names the version."""


@dataclass(frozen=True, slots=True)
class RolePart:
    """One role's part of a payload of role adapters."""

    role: str
    size: int  # bytes
    probe: Probe | None  # what the learner computes as this role


@dataclass(frozen=True, slots=True)
class Payload:
    """One version of the policy's weights: full ones, an adapter's, or those of one adapter per role.

    ``data`` is pickled as an out-of-band buffer, so that processes with a common object store read one copy of it.
    """

    version: int  # the learner's update count; 0 = initial weights
    data: bytes | memoryview  # safetensors; role adapters one file after another, in the order of ``parts``
    checksum: str  # SHA-256 of ``data`` (after the roles and sizes of the parts, if any), lower-case hexadecimal
    probe: Probe | None = None  # what the learner computes with them, for engines to compare
    parts: tuple[RolePart, ...] = ()  # the role adapters, which have no common probe

    @property
    def policy_version(self) -> PolicyVersion:
        """The version and checksum as the rest of the system carries them."""
        return PolicyVersion(number=self.version, checksum=self.checksum)

    @property
    def by_role(self) -> dict[str, tuple[memoryview, Probe | None]]:
        """Each role adapter's safetensors bytes (not copied) and its probe; empty where there are no parts."""
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


def make_payload(version: int, data: bytes | memoryview, probe: Probe | None = None) -> Payload:
    """Make a payload of safetensors bytes."""
    return Payload(version=version, data=data, checksum=_checksum(data, ()), probe=probe)


def make_role_payload(version: int, adapters: Mapping[str, tuple[bytes, Probe | None]]) -> Payload:
    """Make one payload of roles' adapters (bytes and probe of each). Raises ``WeightsError`` if there are none."""
    if not adapters:
        raise WeightsError(f"version {version} has no role adapter")
    parts = tuple(RolePart(role, len(data), probe) for role, (data, probe) in adapters.items())
    data = b"".join(data for data, _ in adapters.values())
    return Payload(version=version, data=data, checksum=_checksum(data, parts), parts=parts)


def verify(payload: Payload) -> None:
    """Raise ``WeightsError`` if the bytes do not match the checksum."""
    found = _checksum(payload.data, payload.parts)
    if found != payload.checksum:
        raise WeightsError(
            f"weights of version {payload.version} are damaged: {len(payload.data)} bytes with SHA-256 "
            f"{found[:12]}..., expected {payload.checksum[:12]}..."
        )


def _checksum(data: bytes | memoryview, parts: tuple[RolePart, ...]) -> str:
    digest = hashlib.sha256("".join(f"{part.role} {part.size}\n" for part in parts).encode())
    digest.update(data)
    return digest.hexdigest()
