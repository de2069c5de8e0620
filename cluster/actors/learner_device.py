"""The learner's device: CPUs, its own GPU, or a shared GPU that it occupies only during updates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from cluster.errors import RunError
from grpo_core.learner import Learner

CPU = torch.device("cpu")


def compute_device(gpus: int) -> torch.device:
    """Return the device of a process with ``learner.gpus``. Raises RunError if there is no GPU."""
    if gpus and not torch.cuda.is_available():
        raise RunError(
            f"learner.gpus is {gpus} and PyTorch {torch.__version__} sees no GPU where the learner "
            "runs; install its CUDA build there (make setup TORCH=auto), or set learner.gpus = 0"
        )
    return torch.device("cuda") if gpus else CPU


class LearnerDevice:
    """The device that a learner computes on.

    To leave a shared GPU, model, reference and optimizer are copied to the machine's memory and back, once per update.
    The CUDA context of the process stays there, about half a GiB.
    """

    def __init__(self, gpus: int, *, shared: bool) -> None:
        """Find the device; ``shared``: a rollout actor takes turns on it. Raises RunError if there is no GPU."""
        self._device = compute_device(gpus)
        self._shared = shared

    def free_bytes(self, in_memory: int) -> int:
        """Return the bytes available for a learner on its device; ``in_memory`` bytes are available on CPUs."""
        if self._device == CPU:
            return in_memory
        free, total = torch.cuda.mem_get_info(self._device)
        return int(total if self._shared else free)  # a sleeping engine leaves next to nothing behind

    @property
    def device(self) -> torch.device:
        """Where the learner computes."""
        return self._device

    def enter(self, model: nn.Module) -> None:
        """Move a model to the device."""
        model.to(self._device)

    def leave(self, learner: Learner) -> None:
        """Free the GPU if it is shared."""
        if self._shared and self._device != CPU:
            learner.move_to(CPU)
            torch.cuda.empty_cache()

    @contextmanager
    def working(self, learner: Learner) -> Iterator[None]:
        """Hold the learner on its device inside the block."""
        if self._shared and self._device != CPU:
            learner.move_to(self._device)
        try:
            yield
        finally:
            self.leave(learner)
