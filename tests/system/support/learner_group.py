"""A ``LearnerWorker`` in this process and its peers as Ray actors, on made-up episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from cluster.actors.learner import LearnerWorker
from cluster.actors.learner_group.peer_actor import LearnerPeerActor
from cluster.actors.messages import UpdateReport
from cluster.configs.loader import load_config
from cluster.runtime.actor_env import actor_environment
from grpo_core.types import Episode, Probe
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from services.weights.payload import Payload
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

SMALL = (
    "policy.hidden_size=32", "policy.layers=2", "policy.intermediate_size=32", "learner.tokens_per_microbatch=256",
    "rollout.num_generations=2", "learner.episodes_per_update=14", "learner.updates=1000",
    "learner.checkpoint_every=1000", "learner.returns=episode", "grouping.keys=['country']",
    "grouping.min_group_size=2", "rollout.start_timeout_s=120", "learner.exchange_timeout_s=60",
)  # fmt: skip
LORA = ("policy.use_peft=true", "policy.lora_r=2")
SPECIALISTS = (*LORA, "policy.specialists=true")
TURNS = 8  # so that each minibatch is several micro-batches, whose gradients are summed in another order
BLOCKS = dict.fromkeys(POWERS, 1)


def episodes(version: int, *, free: bool = False, alike: str | None = None) -> list[Episode]:
    """A block of two games for each country, with equal rewards as ``alike``; the same for the same arguments."""
    out = []
    for index, power in enumerate(POWERS):
        for member in range(2):
            rng = np.random.default_rng([version, index, member])
            turns = tuple(ragged_turn(rng, free=free, policy_version=version) for _ in range(TURNS))
            reward = 1.0 if power == alike else float(rng.normal())
            episode = episode_of(turns, role=power, name=f"{version}-{power}/{member}", reward=reward)
            outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
            out.append(dataclasses.replace(episode, block_size=2, outcome=outcome))
    return out


@contextmanager
def learner_of(
    processes: int,
    run: Path,
    *overrides: str,
    resume: bool = False,
    buffer: MemoryBuffer | None = None,
    peer: type[LearnerPeerActor] = LearnerPeerActor,
) -> Iterator[tuple[LearnerWorker, list[Any]]]:
    """A learner of so many processes and its peers' handles; they end with the block. Ray must have been started."""
    import ray

    run.mkdir(parents=True, exist_ok=True)
    config = load_config("smoke", [*SMALL, *overrides, f"learner.processes={processes}"])
    environment = actor_environment(config.learner.threads, shares=True)
    actor = ray.remote(concurrency_groups={"heartbeat": 1})(peer)
    actor = actor.options(num_cpus=0, runtime_env=environment)
    peers = [actor.remote(config.model_dump_json(), rank) for rank in range(1, processes)]
    worker = None
    try:
        worker = LearnerWorker(config, str(run), buffer or MemoryBuffer(group_timeout_s=60), resume, peers)
        yield worker, peers
    finally:
        for peer in peers:
            ray.kill(peer)
        if worker is not None:
            worker.close()


def train(
    worker: LearnerWorker, updates: int, *, free: bool = False, alike: str | None = None
) -> list[tuple[UpdateReport, Payload]]:
    """Make updates from ``episodes``."""
    made = []
    for _ in range(updates):
        worker._buffer.append(episodes(worker.version(), free=free, alike=alike))
        made.append(worker.update(BLOCKS, 1.0))
    return made


def saved(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint by file and name: weights, adapters, moments."""
    found = {}
    for path in sorted(Path(folder).rglob("*.safetensors")):
        found |= {f"{path.relative_to(folder)}:{name}": tensor for name, tensor in load_file(path).items()}
    return found


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest absolute difference of any value."""
    assert one.keys() == other.keys()
    return max(float((tensor.double() - other[name].double()).abs().max()) for name, tensor in one.items())


def losses(reports: Sequence[tuple[UpdateReport, Payload]]) -> list[float]:
    """The loss of each update."""
    return [report.metrics["entente_loss"] for report, _ in reports]


def check_two_make_the_updates_of_one(folder: Path, settings: tuple[str, ...], *, updates: int, free: bool) -> None:
    """Train as one process and as two, which are to come to the same weights, losses and probes."""
    settings = ("learner.beta=0.02", *settings, *(("inference.decoding=free",) if free else ()))
    results = []
    for processes in (1, 2):
        with learner_of(processes, folder / f"of {processes}", *settings) as (worker, _):
            made = train(worker, updates, free=free)
            results.append((saved(worker.checkpoint()), losses(made), made[-1][1]))
    (one, one_losses, one_payload), (two, two_losses, two_payload) = results
    print("largest difference", largest_difference(one, two))
    assert largest_difference(one, two) < 1e-6
    assert two_losses == pytest.approx(one_losses, abs=1e-6)
    one_probes, two_probes = _probes(one_payload), _probes(two_payload)
    assert len(one_probes) == (7 if SPECIALISTS[-1] in settings else 1)
    assert [probe.tokens for probe in one_probes] == [probe.tokens for probe in two_probes]


def _probes(payload: Payload) -> list[Probe]:
    """The probe of the weights, or of each role's."""
    return [probe for _, probe in payload.by_role.values()] if payload.by_role else [payload.probe]
