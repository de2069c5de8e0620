"""Seconds from tensors to verified weights in another process, beside plain object-store transfer of the same size."""

from __future__ import annotations

import os
from typing import Any

import torch

from cluster.bench.figure import Figure, interleaved_seconds
from cluster.runtime.ray_calls import shut_down_ray
from cluster.runtime.ray_session import quiet_authentication
from grpo_core.models.named_tensors import to_safetensors
from services.weights.payload import Payload, make_payload, verify

SIZES_MB = (4, 100)
TENSORS = 50
ANSWER_TIMEOUT_S = 60


def run(rounds: int) -> list[Figure]:
    """Time pack + put + get in an actor + verify, for about 4 MB and 100 MB, on a local Ray; ``rounds`` a side."""
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    quiet_authentication()
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=1 << 30,
    )
    try:
        receiver = ray.remote(num_cpus=1)(_Receiver).remote()
        return [_figure(ray, receiver, megabytes, rounds) for megabytes in SIZES_MB]
    finally:
        shut_down_ray()


class _Receiver:
    """Replaces a rollout actor; Ray fetches a method's argument from the object store before the call."""

    def verify(self, payload: Payload) -> int:
        """Verify the checksum; returns the number of bytes."""
        verify(payload)
        return len(payload.data)

    def receive(self, data: bytes) -> int:
        """Return the number of bytes."""
        return len(data)


def _figure(ray: Any, receiver: Any, megabytes: int, rounds: int) -> Figure:
    rows = megabytes * 1_000_000 // (4 * 256 * TENSORS)
    tensors = {f"layers.{index}.weight": torch.randn(rows, 256) for index in range(TENSORS)}
    plain = to_safetensors(tensors)

    def ours() -> None:
        reference = ray.put(make_payload(1, to_safetensors(tensors)))
        assert ray.get(receiver.verify.remote(reference), timeout=ANSWER_TIMEOUT_S) == len(plain)

    def yardstick() -> None:
        reference = ray.put(plain)
        assert ray.get(receiver.receive.remote(reference), timeout=ANSWER_TIMEOUT_S) == len(plain)

    ours()  # the actor's process and the store's pages exist before the clock starts
    yardstick()
    seconds = interleaved_seconds({"ours": ours, "plain": yardstick}, rounds)
    name, yardstick_name = f"weights, {len(plain) / 1e6:.0f} MB", "ray.put + ray.get of the bytes"
    note = f"pack (safetensors and SHA-256) + put + get in an actor + verify; median of {rounds}"
    return Figure(name, "s", seconds["ours"], seconds["plain"], yardstick_name, lower_is_better=True, note=note)
