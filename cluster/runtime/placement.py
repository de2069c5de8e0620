"""Placement of a run's actors: a place in the Ray cluster for the learner and each rollout actor, held to the end."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cluster.configs.sections import RolloutSettings, TrainingSettings
from cluster.errors import RunError
from cluster.runtime.ray_calls import check_waiting
from cluster.runtime.ray_watch import control_service_lost

LEARNER_CPUS = 1.0  # of a process that computes on a GPU
WAIT_STEP_S = 1.0  # Ray's own wait cannot be interrupted
NOTICE_AFTER_S = 5.0  # Ray needs a moment to place actors in a cluster that has room
HALF_A_GPU = 0.5  # how Ray accounts for one GPU that two actors take turns on

Bundle = dict[str, float]


def bundles(rollout: RolloutSettings, learner: TrainingSettings) -> list[Bundle]:
    """Resources of each place: those of the learner's processes, then one for each rollout actor.

    It is one place if they share a GPU. A place lies on one node, and so do the GPUs of one engine; different places
    may be on different nodes.
    """
    process = _bundle(_learner_cpus(learner), learner.gpus)
    actor = _bundle(rollout.cpus_per_actor, rollout.gpus_per_actor)
    if rollout.share_gpu_with_learner:
        return [_bundle(_learner_cpus(learner) + rollout.cpus_per_actor, learner.gpus)]
    return [process] * learner.processes + [actor] * rollout.actors


def _learner_cpus(learner: TrainingSettings) -> float:
    """Cores that Ray keeps for a process of the learner: one for each thread, if it computes with them."""
    return LEARNER_CPUS if learner.gpus else float(learner.threads)


def cpus_asked(rollout: RolloutSettings, learner: TrainingSettings) -> int:
    """Sum the CPU cores of all places, rounded up."""
    return math.ceil(_total(bundles(rollout, learner), "CPU"))


def gpus_asked(rollout: RolloutSettings, learner: TrainingSettings) -> float:
    """Sum the GPUs of all places."""
    return _total(bundles(rollout, learner), "GPU")


def check_gpus(asked: float, ray_address: str | None) -> None:
    """Raise RunError for a local run that asks for more GPUs than this machine has."""
    if ray_address is None and asked > 0 and (lacking := lacking_gpus(asked)):
        raise RunError(lacking)


def lacking_gpus(asked: float) -> str | None:
    """Message if this machine has fewer GPUs than ``asked``; None if it has enough."""
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked <= there:
        return None
    return (
        f"this config asks for {_number(asked, 'GPU')} (learner.gpus, rollout.gpus_per_actor) and PyTorch "
        f"{torch.__version__} sees {there or 'none'} on this machine"
        + ("; it is a build without CUDA: make setup TORCH=auto" if torch.version.cuda is None else "")
        + "; else set both keys to 0 for CPUs, or name a cluster in run.ray_address"
    )


@dataclass(frozen=True, slots=True, eq=False)
class FurtherPlace:
    """A place for one rollout actor beyond ``rollout.actors``; the cluster's autoscaler may add a node for it."""

    group: Any  # ray.util.placement_group.PlacementGroup

    def ready(self) -> Any:
        """Return a reference that resolves once the place is there."""
        return self.group.ready()

    def give_back(self) -> None:
        """Free the place, or cancel the request; processes that still run there are ended."""
        _remove(self.group)


Slot: TypeAlias = int | FurtherPlace  # a rollout actor's place


@dataclass(frozen=True, slots=True)
class Placement:
    """The places that Ray holds for this run."""

    rollout: RolloutSettings
    learner: TrainingSettings
    group: Any  # ray.util.placement_group.PlacementGroup
    processes: Any = None  # the group of the learner's processes, if there are several

    def of_learner(self, rank: int = 0) -> dict[str, Any]:
        """Ray options that put a process of the learner into its place."""
        cpus = _learner_cpus(self.learner)
        if self.processes is not None:
            return _options(self.processes, rank, cpus, self.learner.gpus)
        return self._options(0, cpus, self.learner.gpus)

    def of_rollout(self, slot: Slot) -> dict[str, Any]:
        """Ray options that put the rollout actor of a slot (``< rollout.actors``, or a further place) there."""
        rollout = self.rollout
        if isinstance(slot, FurtherPlace):
            return _options(slot.group, 0, rollout.cpus_per_actor, rollout.gpus_per_actor)
        place = 0 if rollout.share_gpu_with_learner else slot + (self.processes is None)
        return self._options(place, rollout.cpus_per_actor, rollout.gpus_per_actor)

    def further(self) -> FurtherPlace:
        """Request a place for one more rollout actor."""
        from ray.util.placement_group import placement_group

        rollout = self.rollout
        return FurtherPlace(placement_group([_bundle(rollout.cpus_per_actor, rollout.gpus_per_actor)]))

    def _options(self, place: int, cpus: float, gpus: float) -> dict[str, Any]:
        shared = self.rollout.share_gpu_with_learner
        return _options(self.group, place, cpus, gpus * HALF_A_GPU if shared else gpus)


@contextmanager
def placed(
    rollout: RolloutSettings,
    learner: TrainingSettings,
    *,
    may_grow: bool,
    notice: Callable[[str], None] | None = None,
) -> Iterator[Placement]:
    """Hold places for all actors of a run in the connected Ray inside the block.

    Several processes of the learner have a group of their own, because they are placed by a rule of their own.
    ``may_grow``: whether Ray may get further nodes; then ``notice`` is told once if there is no room yet.

    Raises RunError if they are not there within ``rollout.start_timeout_s``, or ``rollout.node_timeout_s`` if nodes
    have to come first (at once if the Ray can never hold them).
    """
    import ray

    wanted, count = bundles(rollout, learner), learner.processes
    asked = [(wanted, "PACK")]
    if count > 1:
        asked = [(wanted[:count], learner.process_placement.upper()), (wanted[count:], "PACK")]
    fits = _fits(asked, [_processors(node["Resources"]) for node in ray.nodes() if node["Alive"]])
    if fits:
        limit = _Limit(rollout.start_timeout_s, "rollout.start_timeout_s")
    else:
        limit = _Limit(rollout.node_timeout_s if may_grow else 0.0, "rollout.node_timeout_s")
    with ExitStack() as stack:
        groups = []
        for each in asked:
            groups.append(stack.enter_context(_requested(*each)))
            # Where the nodes are there, the learner's processes choose theirs first. Else all places are requested
            # before one is waited for, so that the nodes for all come at the same time.
            if fits or len(groups) == len(asked):
                for group, wish in zip(groups, asked, strict=False):
                    if _wait_for(group, *wish, limit, notice):
                        notice = None
        yield Placement(rollout, learner, groups[-1], groups[0] if count > 1 else None)


def _fits(asked: Sequence[tuple[Sequence[Bundle], str]], nodes: Sequence[Bundle]) -> bool:
    """Whether the nodes could hold all places if they were idle; it does not try to pack them."""
    places = [bundle for wanted, _ in asked for bundle in wanted]
    # Each place lies on one node, and so do all of a strict pack together.
    places += [_sum(wanted) for wanted, strategy in asked if strategy == "STRICT_PACK"]
    return _holds(_sum(nodes), _sum([bundle for wanted, _ in asked for bundle in wanted])) and all(
        any(_holds(node, place) for node in nodes) for place in places
    )


def _holds(node: Bundle, place: Bundle) -> bool:
    return all(amount <= node.get(kind, 0.0) for kind, amount in place.items())


def _sum(places: Sequence[Bundle]) -> Bundle:
    return {kind: _total(places, kind) for kind in ("CPU", "GPU")}


@dataclass(frozen=True, slots=True)
class _Limit:
    """How long to wait for places."""

    seconds: float
    key: str  # of the config
    since: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return f"{self.seconds:g} s ({self.key})"

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self.since


@contextmanager
def _requested(wanted: Sequence[Bundle], strategy: str) -> Iterator[Any]:
    """Request a placement group, and give it back in the end."""
    from ray.util.placement_group import placement_group

    group = placement_group(list(wanted), strategy=strategy)
    try:
        yield group
    finally:
        _remove(group)


def _wait_for(
    group: Any, wanted: Sequence[Bundle], strategy: str, limit: _Limit, notice: Callable[[str], None] | None
) -> bool:
    """Wait for a group; return whether the notice was given. Raises RunError if it is not there within the limit."""
    told = False
    while not group.wait(WAIT_STEP_S):
        check_waiting()
        if limit.waited_s >= limit.seconds:
            raise RunError(_unsatisfied(wanted, limit, one_node=strategy == "STRICT_PACK"))
        if notice is not None and not told and limit.waited_s >= NOTICE_AFTER_S:
            notice(f"Ray has no room yet for {_counted(wanted)}; the run waits up to {limit}")
            told = True
    return told


def _remove(group: Any) -> None:
    from ray.util.placement_group import remove_placement_group

    if not control_service_lost():  # else the call hangs, and there is nothing left to free
        remove_placement_group(group)


def _unsatisfied(wanted: Sequence[Bundle], limit: _Limit, *, one_node: bool) -> str:
    import ray

    asked = _counted(wanted)
    there = _counted([_processors(node["Resources"]) for node in ray.nodes() if node["Alive"]])
    free = _resources(_processors(ray.available_resources()))
    within = f" within {limit}" if limit.seconds else ""
    if one_node:
        where = "all on one node (learner.process_placement)"
        change = 'learner.processes or learner.threads, or set learner.process_placement = "spread"'
    else:
        where = "each on one node"
        change = (
            "rollout.actors, rollout.cpus_per_actor, rollout.gpus_per_actor, learner.processes, learner.threads or "
            "learner.gpus"
        )
    return (
        f"Ray has no room for this run's actors{within}: they ask for {asked}, {where}; its nodes have "
        f"{there}, of which {free} are free; lower {change}, or add nodes"
    )


def _options(group: Any, place: int, cpus: float, gpus: float) -> dict[str, Any]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    strategy = PlacementGroupSchedulingStrategy(group, place)
    return {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": strategy}


def _bundle(cpus: float, gpus: float) -> Bundle:
    return {"CPU": cpus, "GPU": gpus} if gpus else {"CPU": cpus}


def _processors(resources: Mapping[str, float]) -> Bundle:
    return {kind: resources.get(kind, 0.0) for kind in ("CPU", "GPU")}


def _total(places: Sequence[Bundle], kind: str) -> float:
    return sum(bundle.get(kind, 0.0) for bundle in places)


def _counted(places: Sequence[Bundle]) -> str:
    counts = Counter(map(_resources, places))
    return ", ".join(f"{count} x [{text}]" if count > 1 else f"[{text}]" for text, count in counts.items())


def _resources(bundle: Mapping[str, float]) -> str:
    return ", ".join(_number(amount, kind) for kind, amount in sorted(bundle.items()))


def _number(amount: float, kind: str) -> str:
    return f"{amount:g} {kind}{'' if amount == 1 else 's'}"
