"""The learner's state besides the weights, as tensors and plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, Field, NonNegativeInt
from torch import Tensor, nn

from grpo_core.advantages.group_baseline import RunningBaseline
from grpo_core.advantages.pipeline import AdvantageMemory
from grpo_core.errors import CheckpointError, one_line

_ADVANTAGES = "advantages/"  # prefix of the arrays of ``AdvantageMemory`` among a state's tensors
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, eq=False)
class LearnerState:
    """Everything besides the weights that an exact continuation needs."""

    # Optimizer moments "exp_avg/<parameter name>" and ``AdvantageMemory``'s arrays "advantages/<name>".
    tensors: Mapping[str, Tensor]
    record: dict[str, Any]  # JSON-able: version, optimizer steps, generator, running baselines, ``AdvantageMemory``


_Two = Annotated[list[float], Field(min_length=2, max_length=2)]
_Three = Annotated[list[float], Field(min_length=3, max_length=3)]


class _Choice(BaseModel, strict=True):
    left_out: dict[str, float]
    total: float


class _Advantages(BaseModel, strict=True):
    clusters: dict[str, list[str]]
    progress: dict[str, _Three]
    choice: _Choice = _Choice(left_out={}, total=0.0)  # states of earlier versions lack it


class _Record(BaseModel, strict=True):
    version: NonNegativeInt
    optimizer_steps: dict[str, float]
    generator: dict[str, Any]
    baselines: dict[str, _Two]
    advantages: _Advantages


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """A state in the learner's own types."""

    version: int
    baselines: dict[str, RunningBaseline]
    memory: AdvantageMemory
    moments: dict[nn.Parameter, dict[str, Tensor]]  # the state's own tensors, not copied
    generator: np.random.Generator


def packed(
    version: int,
    optimizer: torch.optim.Optimizer,
    named: Mapping[str, nn.Parameter],
    baselines: Mapping[str, RunningBaseline],
    memory: AdvantageMemory,
    generator: np.random.Generator,
) -> LearnerState:
    """Return the parts of a learner's state: the optimizer's own tensors, which its next step changes."""
    tensors: dict[str, Tensor] = {}
    steps: dict[str, float] = {}
    for name, parameter in named.items():
        if moments := optimizer.state.get(parameter):  # a parameter without a step has none
            tensors |= {f"{kind}/{name}": moments[kind].detach() for kind in _MOMENTS}
            steps[name] = float(moments["step"])
    memory_record, arrays = memory.export()
    tensors |= {f"{_ADVANTAGES}{name}": torch.tensor(array) for name, array in arrays.items()}
    record = {
        "version": version,
        "optimizer_steps": steps,
        "generator": generator.bit_generator.state,
        "baselines": {role: [line.mean, line.variance] for role, line in sorted(baselines.items())},
        "advantages": memory_record,
    }
    return LearnerState(tensors, record)


def unpacked(state: LearnerState, named: Mapping[str, nn.Parameter]) -> Restored:
    """Read what ``packed`` wrote, for a model with these parameters.

    Raises:
        CheckpointError: the state is another model's or incomplete.
    """
    arrays = {
        name.removeprefix(_ADVANTAGES): tensor.numpy().copy()
        for name, tensor in state.tensors.items()
        if name.startswith(_ADVANTAGES)
    }
    generator = np.random.Generator(np.random.PCG64())
    try:
        record = _Record.model_validate(state.record)
        generator.bit_generator.state = record.generator
        return Restored(
            version=record.version,
            baselines={role: RunningBaseline(*pair) for role, pair in record.baselines.items()},
            memory=AdvantageMemory.restore(record.advantages.model_dump(), arrays),
            moments=_restored_moments(state.tensors, record.optimizer_steps, named),
            generator=generator,
        )
    # numpy raises the last three for numbers of another size or kind.
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RuntimeError) as error:
        reason = one_line(repr(error), 200)
        raise CheckpointError(f"the learner state does not fit this model or is incomplete: {reason}") from error


def _restored_moments(
    tensors: Mapping[str, Tensor], steps: Mapping[str, float], named: Mapping[str, nn.Parameter]
) -> dict[nn.Parameter, dict[str, Tensor]]:
    restored: dict[nn.Parameter, dict[str, Tensor]] = {}
    for name, count in steps.items():
        parameter = named[name]
        # A fused optimizer needs its step count on the parameter's device.
        restored[parameter] = {"step": torch.tensor(count, dtype=torch.float32, device=parameter.device)}
        for kind in _MOMENTS:
            moment = tensors[f"{kind}/{name}"]
            if moment.shape != parameter.shape:
                raise ValueError(f"{name}: {tuple(moment.shape)} against {tuple(parameter.shape)}")
            restored[parameter][kind] = moment
    return restored


def without_moments(state: LearnerState) -> LearnerState:
    """Return a state for the ranks that get their moments from rank 0."""
    small = {name: tensor for name, tensor in state.tensors.items() if name.startswith(_ADVANTAGES)}
    return LearnerState(small, state.record)


def with_shapes(state: LearnerState, named: Mapping[str, nn.Parameter]) -> LearnerState:
    """Put tensors that take no memory in the places of moments that ``without_moments`` left out."""
    shapes = {name: named[name].shape for name in state.record["optimizer_steps"]}
    empty = {f"{kind}/{name}": torch.zeros(()).expand(shape) for name, shape in shapes.items() for kind in _MOMENTS}
    return LearnerState({**empty, **state.tensors}, state.record)
