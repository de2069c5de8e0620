"""Train one policy in several processes (FSDP2).

Each rank holds a share of every weight, gradient and optimizer moment (ZeRO, arXiv 1910.02054) and gathers a block's
weights only while it runs. Every rank makes the same ``Learner`` and calls ``step`` with the same batch, and ``state``
or ``plain_items`` at the same time; the micro-batches are divided among the ranks. Weights and moments start as those
of rank 0, so that the other ranks need not read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from grpo_core.batching.microbatches import MicroBatch


@dataclass(frozen=True, slots=True)
class Sharding:
    """This process's rank among those that train one policy; with ``ALONE`` all methods are no-ops."""

    rank: int
    ranks: int
    device: torch.device  # where this rank's weights are

    def shard(self, module: nn.Module, blocks: Callable[[], Sequence[nn.Module]]) -> None:
        """Shard a module's parameters over the ranks, in place; their names stay.

        Each of the ``blocks`` gathers its parameters around its own call, the module gathers the rest around its call.
        The values are those of rank 0. One part after the other moves to ``device``, which never holds them all.
        """
        if self.ranks == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.ranks,))
        for part in (*blocks(), module):
            part.to(self.device)
            self._take_values_of_first(part)
            fully_shard(part, mesh=mesh)

    def _take_values_of_first(self, part: nn.Module) -> None:
        """Copy rank 0's parameters and buffers that are not sharded yet."""
        import torch.distributed as dist

        with torch.no_grad():
            for tensor in (*part.parameters(), *part.buffers()):
                if not hasattr(tensor, "full_tensor"):
                    dist.broadcast(tensor.data, 0)

    def called(self, module: nn.Module, *inputs: Any) -> Any:
        """Call a module without gradients, and free what it gathered."""
        with torch.no_grad():
            result = module(*inputs)
        self.free(module)
        return result

    def free(self, module: nn.Module) -> None:
        """Free what a sharded module gathered for calls that no backward pass follows.

        Its blocks do so after each call, but FSDP2 lets the outermost module keep its weights for the backward pass.
        """
        if self.ranks > 1:
            sharded: Any = module
            sharded.reshard()

    def share(self, micros: Sequence[MicroBatch]) -> list[tuple[MicroBatch, bool]]:
        """Return this rank's micro-batches, and whether each is its own.

        Gathering weights is collective, so all ranks need equally many: one that is not its own has weight 0.
        """
        if self.ranks == 1:
            return [(micro, True) for micro in micros]
        own = [(micro, True) for micro in micros[self.rank :: self.ranks]]
        if len(own) < -(-len(micros) // self.ranks):
            # Micro-batches come longest first, so the last is the cheapest.
            own.append((replace(micros[-1], weight_N=torch.zeros_like(micros[-1].weight_N)), False))
        return own

    def total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the ranks, element by element."""
        return self._reduced(values, "SUM")

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Maxima over the ranks, element by element."""
        return self._reduced(values, "MAX")

    def joined(self, parts: Mapping[int, Tensor], lengths: Mapping[int, int]) -> dict[int, Tensor]:
        """Collect the ranks' float32 vectors by name; exactly one rank has each.

        ``parts`` are this rank's vectors; ``lengths`` are those of all ranks' vectors, the same mapping on every rank.
        """
        if self.ranks == 1:
            return dict(parts)
        import torch.distributed as dist

        names = list(lengths)
        vectors = [parts.get(name, torch.zeros(lengths[name], device=self.device)) for name in names]
        if not vectors:
            return {}
        flat = torch.cat(vectors)
        dist.all_reduce(flat)
        return dict(zip(names, torch.split(flat, [lengths[name] for name in names]), strict=True))

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace every rank's gradients by their sum; for copies of a model whose parameters are not sharded."""
        if self.ranks == 1:
            return
        import torch.distributed as dist

        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        dist.all_reduce(flat)
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, summed in zip(parameters, torch.split(flat, sizes), strict=True):
            parameter.grad = summed.view_as(parameter)

    def gathered(self, value: Any) -> list[Any]:
        """What each rank gave, by rank, on the first one; an empty list on the others. It travels pickled."""
        if self.ranks == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] | None = [None] * self.ranks if self.rank == 0 else None
        dist.gather_object(value, values, dst=0)
        return values or []

    def _reduced(self, values: NDArray[np.float64], how: str) -> NDArray[np.float64]:
        if self.ranks == 1:
            return values
        import torch.distributed as dist

        tensor = torch.from_numpy(values.copy()).to(self.device)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
        reduced: NDArray[np.float64] = tensor.cpu().numpy()
        return reduced


ALONE = Sharding(0, 1, torch.device("cpu"))


@contextmanager
def process_group(
    rank: int,
    ranks: int,
    address: str | None,
    *,
    store: Any = None,
    device: torch.device | None = None,
    timeout_s: float = 600.0,
) -> Iterator[Sharding]:
    """Join the processes that train one policy; the group ends with the block.

    Args:
        rank: this process's number, from 0.
        ranks: the number of processes; with 1 no group is made.
        address: the same for all: ``tcp://host:port`` with a port that is free on rank 0's machine, or ``file://``;
            None: the processes meet in ``store``.
        store: a ``torch.distributed.Store`` that the processes share.
        device: where this rank's weights are. GPUs communicate through NCCL, the CPU (default) through gloo.
        timeout_s: the longest wait for the others to join and for each exchange.

    Raises:
        torch.distributed.DistError, RuntimeError: a rank is missing, has died or is later than ``timeout_s``.
    """
    if ranks == 1:
        yield ALONE
        return
    import torch.distributed as dist

    device = device or torch.device("cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=address, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout_s)
    )
    try:
        yield Sharding(rank, ranks, device)
    finally:
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """Return the tensor itself, or a sharded one gathered on the CPU; all ranks must call this at the same time."""
    sharded: Any = tensor
    if not hasattr(tensor, "full_tensor"):
        return tensor
    gathered: Tensor = sharded.to(sharded.device_mesh.device_type).full_tensor().cpu()
    return gathered


def spread_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Shard rank 0's tensor as the parameter of its shape is sharded; of the other ranks' only the shape counts."""
    sharded: Any = parameter
    if not hasattr(parameter, "full_tensor") or tensor.shape != parameter.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    spread: Tensor = distribute_tensor(tensor.to(sharded.device), sharded.device_mesh, sharded.placements)
    return spread
