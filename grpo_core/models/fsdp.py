"""One policy trained by several processes (FSDP2): shared weights, shared micro-batches, one update.

Each rank holds a share of every weight, gradient and optimizer moment (ZeRO, Rajbhandari et al., arXiv 1910.02054) and
gathers a block's weights only while it runs. All ranks are given the same batch, judge it alike, and take turns over
its micro-batches; gathering is collective, so a rank without a micro-batch left makes a pass that weighs nothing.

Every process runs the same program::

    with process_group(rank, ranks, "tcp://10.0.0.1:29500") as sharding:
        learner = Learner(model, settings, grouping, seed, sharding=sharding)  # model: the same weights everywhere
        result = learner.step(batch)                          # the same batch; the same metrics come back
        state, weights = learner.state(), plain_tensors(model)  # gathered: every rank asks, one of them writes

On a cluster each process is one learner actor: rank 0 owns the buffer, the checkpoints and the publishing, sends the
batch to the others and calls ``step`` at the same time as they do. The whole model is in each process's memory until
``Learner`` has sharded it.
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
    """This process's place among those that train one policy; ``ALONE`` does nothing and costs nothing."""

    rank: int
    ranks: int
    device: torch.device  # of this rank's weights

    def shard(self, module: nn.Module, blocks: Callable[[], Sequence[nn.Module]]) -> None:
        """Spread a module's parameters over the ranks, in place; their names stay.

        Args:
            module: gathers around its call whatever lies outside the blocks.
            blocks: gives the parts of it that gather around their own calls.
        """
        if self.ranks == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.ranks,))
        for part in (*blocks(), module):
            fully_shard(part, mesh=mesh)

    def share(self, micros: Sequence[MicroBatch]) -> list[tuple[MicroBatch, bool]]:
        """This rank's micro-batches, as many as every other rank's; False: not its own, with tokens of weight 0."""
        if self.ranks == 1:
            return [(micro, True) for micro in micros]
        own = [(micro, True) for micro in micros[self.rank :: self.ranks]]
        if len(own) < -(-len(micros) // self.ranks):
            # The last is the smallest: micro-batches come longest first.
            own.append((replace(micros[-1], weight_N=torch.zeros_like(micros[-1].weight_N)), False))
        return own

    def total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the ranks, element by element."""
        return self._reduced(values, "SUM")

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Maxima over the ranks, element by element."""
        return self._reduced(values, "MAX")

    def joined(self, parts: Mapping[int, Tensor], lengths: Mapping[int, int]) -> dict[int, Tensor]:
        """Vectors of all ranks by name, each of which exactly one rank has.

        Args:
            parts: name -> vector, float32, of this rank.
            lengths: name -> length, of all ranks together and the same on each.
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
        """Replace every rank's gradients by their sum; for copies of a model, whose parameters are not spread."""
        if self.ranks == 1:
            return
        import torch.distributed as dist

        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, summed in zip(parameters, torch.split(flat, sizes), strict=True):
            parameter.grad = summed.view_as(parameter)

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
    rank: int, ranks: int, address: str, *, device: torch.device | None = None, timeout_s: float = 600.0
) -> Iterator[Sharding]:
    """Join the processes that train one policy; the group ends with the block.

    Args:
        rank: this process's number, from 0.
        ranks: how many there are; 1 joins nothing.
        address: the same for all, ``tcp://host:port`` of a port that is free on rank 0's machine.
        device: of this rank's weights; a GPU talks through NCCL, the CPU (the default) through gloo.
        timeout_s: seconds for the others to come, and for each exchange with them.

    Raises:
        torch.distributed.DistError, RuntimeError: a rank is missing, has died or has fallen behind by more than
            ``timeout_s``.
    """
    if ranks == 1:
        yield ALONE
        return
    import torch.distributed as dist

    device = device or torch.device("cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=address, rank=rank, world_size=ranks, timeout=timedelta(seconds=timeout_s)
    )
    try:
        yield Sharding(rank, ranks, device)
    finally:
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one, on the CPU; every rank must ask for it at the same time."""
    sharded: Any = tensor
    if not hasattr(tensor, "full_tensor"):
        return tensor
    gathered: Tensor = sharded.to(sharded.device_mesh.device_type).full_tensor().cpu()
    return gathered


def spread_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, the same on every rank, spread over them as a parameter of its shape is."""
    sharded: Any = parameter
    if not hasattr(parameter, "full_tensor") or tensor.shape != parameter.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    spread: Tensor = distribute_tensor(tensor, sharded.device_mesh, sharded.placements)
    return spread
