"""Where the learner's tensors lie: on CPUs, on its GPU, or on a shared GPU while it updates and else in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from cluster.errors import RunError
from grpo_core.learner import Learner

CPU = torch.device("cpu")


class LearnerDevice:
    """The device that a learner computes on, and its moves between there and the machine's memory.

    A shared GPU is left by moving model, reference and optimizer away, a copy each way an update. What stays is the
    CUDA context of the process, about half a GiB.
    """

    def __init__(self, gpus: int, *, shared: bool) -> None:
        """Find the device.

        Args:
            gpus: ``learner.gpus``.
            shared: whether a rollout actor takes turns on that GPU.

        Raises:
            RunError: ``learner.gpus`` is 1 and PyTorch sees no GPU here.
        """
        if gpus and not torch.cuda.is_available():
            raise RunError(
                f"learner.gpus is {gpus} and PyTorch {torch.__version__} sees no GPU where the learner "
                "runs; install its CUDA build there (make setup TORCH=auto), or set learner.gpus = 0"
            )
        self._device = torch.device("cuda") if gpus else CPU
        self._shared = shared

    def free_bytes(self, in_memory: int) -> int:
        """Bytes there are for a learner on its device, where ``in_memory`` are free for it on CPUs."""
        if self._device == CPU:
            return in_memory
        free, total = torch.cuda.mem_get_info(self._device)
        return int(total if self._shared else free)  # a sleeping engine leaves next to nothing behind

    def enter(self, model: nn.Module) -> None:
        """Move a model to where its learner is to be made."""
        model.to(self._device)

    def leave(self, learner: Learner) -> None:
        """Free the GPU if it is shared."""
        if self._shared and self._device != CPU:
            learner.move_to(CPU)
            torch.cuda.empty_cache()

    @contextmanager
    def working(self, learner: Learner) -> Iterator[None]:
        """Hold the learner on its device, for an update."""
        if self._shared and self._device != CPU:
            learner.move_to(self._device)
        try:
            yield
        finally:
            self.leave(learner)
