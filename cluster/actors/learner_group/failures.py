"""What goes wrong between the processes of a learner."""

from __future__ import annotations


def of_process(rank: int) -> str:
    """Name a process in an error."""
    return f"process {rank} of the learner"


def exchange_failed(error: Exception) -> bool:
    """Whether an error of torch says that another process is gone or late, rather than that a computation failed."""
    from torch.distributed import DistError

    text = str(error).lower()
    return isinstance(error, DistError) or "gloo" in text or "nccl" in text
