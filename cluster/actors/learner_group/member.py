"""What each process of a learner does: make its share of the model, learn, and gather the weights."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from cluster.actors.learner_device import compute_device
from cluster.actors.learner_group.failures import of_process
from cluster.actors.learner_group.gathering import help_gather_policy, help_save_checkpoint
from cluster.actors.learner_group.meeting import Meeting, entered, use_interface_of
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.runtime.memory import adapter_parameters, available_bytes
from grpo_core.learner import Learner, UpdateResult
from grpo_core.models.fsdp import Sharding, process_group
from grpo_core.models.lora import ONLY, add_adapters, has_adapters
from grpo_core.models.pretrained import empty_model, plain_model
from grpo_core.models.role_adapters import adapter_roles, add_role_adapters
from grpo_core.training.learner_state import LearnerState
from grpo_core.training.memory_estimate import ModelShape, check_learner_memory, estimate_memory
from grpo_core.types import Batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PretrainedConfig, PreTrainedModel

    ProbePrompts = Mapping[str | None, Sequence[Sequence[int]]]  # by role; None: one policy plays all roles


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """What a peer needs to make rank 0's model without its weights."""

    model: PretrainedConfig  # of the plain model
    dtype: str
    revision: str | None  # the base's fingerprint, which an adapter's configuration has; None: there is no adapter
    roles: tuple[str, ...]  # that have their own adapters
    has_reference: bool  # whether a copy of the first weights is beside it

    @classmethod
    def of(cls, model: nn.Module, *, has_reference: bool) -> Recipe:
        """Describe rank 0's model."""
        plain, adapted = plain_model(model), cast("Any", model)
        roles = adapter_roles(model)
        revision = adapted.peft_config[roles[0] if roles else ONLY].revision if has_adapters(model) else None
        return cls(plain.config, str(plain.dtype).removeprefix("torch."), revision, roles, has_reference)


@dataclass(frozen=True, slots=True)
class Step:
    """What must be equal on every process after an update."""

    version: int
    loss: float  # as the norm it is a sum over the processes, and so differs only if summing went wrong
    grad_norm: float
    digests: Mapping[str, str]  # of what the process computed by itself (``own_digests``)

    @classmethod
    def of(cls, version: int, result: UpdateResult) -> Step:
        """Take it from an update."""
        return cls(version, result.metrics["loss"], result.metrics["grad_norm"], result.digests)

    def differs_in(self, other: Step) -> list[str]:
        """Name the figures that another process does not have alike."""
        figures = {"version": "version", "loss": "loss", "grad_norm": "gradient norm"}
        found = [name for field, name in figures.items() if getattr(self, field) != getattr(other, field)]
        names = sorted(self.digests.keys() | other.digests.keys())
        return found + [name for name in names if self.digests.get(name) != other.digests.get(name)]


def check_alike(own: Step, others: Sequence[Step]) -> None:
    """Raise RunError if the processes after the first (``others``, by rank from 1) did not make its update.

    Each computes its part of the loss from its own advantages, so a difference in the last bit is an error, too.
    """
    differing = {rank: names for rank, step in enumerate(others, 1) if (names := own.differs_in(step))}
    if differing:
        shown = "; ".join(f"{of_process(rank)}: {', '.join(names)}" for rank, names in differing.items())
        raise RunError(
            f"update {own.version}: not all processes of the learner have the figures of process 0 ({shown}): all must "
            "run the same Entente and libraries on the same kind of CPU"
        )


def make_learner(config: Config, model: nn.Module, reference: nn.Module | None, sharding: Sharding) -> Learner:
    """Make the learner of a model with the config's settings; every process of a group does so at the same time."""
    return Learner(
        model,
        config.learner,
        config.grouping,
        seed=config.run.seed,
        reference=reference,
        alignment=config.alignment,
        sharding=sharding,
    )


def join(stack: ExitStack, meeting: Meeting, store: Any, rank: int, device: torch.device) -> Sharding:
    """Join the other processes until ``stack`` is closed."""
    use_interface_of(meeting.host if rank == 0 else node_address())
    if device.type == "cuda":
        torch.cuda.set_device(device)
    group = process_group(rank, meeting.ranks, None, store=store, device=device, timeout_s=meeting.exchange_timeout_s)
    return stack.enter_context(group)


class LearnerMember:
    """A process after the first; its methods are called at the same time as rank 0's own."""

    def __init__(self, config: Config, rank: int) -> None:
        torch.set_num_threads(config.learner.threads)
        torch.manual_seed(config.run.seed)
        self._config = config
        self._rank = rank
        self._device = compute_device(config.learner.gpus)
        self._stack = ExitStack()
        self._sharding: Sharding | None = None
        self._learner: Learner | None = None

    def join(self, meeting: Meeting) -> None:
        """Join rank 0 and the other peers."""
        self._sharding = join(self._stack, meeting, entered(meeting), self._rank, self._device)

    def make(self, recipe: Recipe) -> None:
        """Make the learner; its weights come from rank 0."""
        assert self._sharding is not None, "it has not joined the others"
        base = self._empty(recipe)
        reference = self._empty(recipe) if recipe.has_reference else None
        check_peer_memory(self._config, base, self._device)
        model: nn.Module = base
        settings, seed = self._config.policy, self._config.run.seed
        if recipe.roles:
            model = add_role_adapters(base, settings, seed, recipe.roles, revision=recipe.revision)
        elif recipe.revision is not None:
            model = add_adapters(base, settings, seed, revision=recipe.revision)
        self._learner = make_learner(self._config, model, reference, self._sharding)

    def load_state(self, state: LearnerState) -> None:
        """Continue from a checkpoint; ``state`` is without moments."""
        self._made.load_state(state)

    def step(self, batch: Batch, traced_tokens: int | None) -> Step:
        """Learn from rank 0's batch."""
        return Step.of(self._made.version + 1, self._made.step(batch, traced_tokens))

    def publish(self, prompts: ProbePrompts) -> None:
        """Help rank 0 to compute its probes and to gather the weights for engines."""
        for role, own in prompts.items():
            self._made.probe(own, role)
        self.gather_policy()

    def gather_policy(self) -> None:
        """Help rank 0 to gather the weights that ``policy_payload`` has."""
        help_gather_policy(self._made.model)

    def gather_checkpoint(self) -> None:
        """Help rank 0 to gather what ``save_checkpoint`` writes, in its order."""
        help_save_checkpoint(self._made)

    def close(self) -> None:
        """Leave the group, so that the others' exchanges fail at once."""
        self._stack.close()

    @property
    def _made(self) -> Learner:
        assert self._learner is not None, "it has not made its learner"
        return self._learner

    def _empty(self, recipe: Recipe) -> PreTrainedModel:
        return empty_model(recipe.model, getattr(torch, recipe.dtype))


def check_peer_memory(config: Config, model: PreTrainedModel, device: torch.device) -> None:
    """Raise ResourceError if a peer's share would not fit on its device."""
    on_gpu = device.type == "cuda"
    parameters = sum(value.numel() for value in model.parameters())
    shape = ModelShape.of(model.config)
    adapters = adapter_parameters(config.policy, shape) * config.policies_per_version if config.policy.use_peft else 0
    estimate = estimate_memory(
        shape,
        config.policy,
        config.learner,
        parameters=parameters + adapters,
        trained=adapters or parameters,
        free_text=config.writes_free_text,
        processes=config.learner.processes,
        publishes=False,
        on_gpu=on_gpu,
    )
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else available_bytes()
    check_learner_memory(estimate, int(free), config.policy, config.learner, on_gpu=on_gpu)


def node_address() -> str:
    """Return the address at which Ray's other nodes reach this one."""
    import ray.util

    return str(ray.util.get_node_ip_address())
