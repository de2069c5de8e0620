"""The learner actor's worker: adapters across restarts, and a learner that would not fit in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import cluster.actors.learner
from cluster.actors.learner import LearnerWorker
from cluster.config import load_config
from cluster.errors import RunError
from grpo_core.errors import ResourceError
from grpo_core.models import load_model, weights_payload
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from services.weights.payload import Payload
from tests.unit.grpo_cases import episode_of, ragged_turn

SMALL = (
    "policy.hidden_size=32", "policy.layers=2", "policy.intermediate_size=32", "learner.tokens_per_microbatch=1024",
    "rollout.num_generations=2", "learner.episodes_per_update=14", "learner.updates=9", "learner.checkpoint_every=1",
    "learner.returns=episode", "learner.lr_warmup_updates=0", "learner.learning_rate=0.01",
    "grouping.keys=['country']", "grouping.min_group_size=2",
)  # fmt: skip
BLOCKS = dict.fromkeys(POWERS, 1)


def episodes(version: int) -> list[Episode]:
    """A block of two games for each country."""
    out = []
    for index, power in enumerate(POWERS):
        for member in range(2):
            rng = np.random.default_rng([version, index, member])
            name = f"{version}-{power}/{member}"
            turn = ragged_turn(rng, policy_version=version)
            episode = episode_of((turn,), role=power, name=name, reward=float(rng.normal()))
            outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
            out.append(dataclasses.replace(episode, block_size=2, outcome=outcome))
    return out


def worker_at(path: Path, *overrides: str, resume: bool = False) -> LearnerWorker:
    path.mkdir(exist_ok=True)
    config = load_config("smoke", [*SMALL, *overrides])
    return LearnerWorker(config, str(path), MemoryBuffer(group_timeout_s=60), resume)


def updated(worker: LearnerWorker) -> tuple[dict[str, float], Payload]:
    worker._buffer.append(episodes(worker.version()))
    report, payload = worker.update(BLOCKS, 1.0)
    return dict(report.metrics), payload


@pytest.mark.parametrize("options", [(), ("policy.dtype=bfloat16",), ("learner.bf16=true",)])
def test_adapters_go_on_after_a_restart_as_if_there_had_been_none(tmp_path: Path, options: tuple[str, ...]) -> None:
    lora = ("policy.use_peft=true", "policy.lora_r=2", "learner.beta=0.1", *options)
    run = tmp_path / "run"
    worker = worker_at(run, *lora)
    first = worker.publish()
    payloads = [updated(worker)[1] for _ in range(2)]
    assert len({first.checksum, *(payload.checksum for payload in payloads)}) == 3
    restarted = worker_at(run, *lora, resume=True)
    assert restarted.version() == 2
    assert restarted.publish() == payloads[1]
    (metrics, payload), (again, same) = updated(worker), updated(restarted)
    assert metrics["entente_reference_kl"] == again["entente_reference_kl"] > 0
    assert payload == same
    plain, _ = load_model(run / "checkpoints" / "3", getattr(torch, worker._config.policy.dtype))
    assert weights_payload(plain) == same.data


def test_adapters_without_the_weights_they_sit_on_are_refused(tmp_path: Path) -> None:
    worker = worker_at(tmp_path / "run", "policy.use_peft=true")
    updated(worker)
    (tmp_path / "run" / "checkpoints" / "0").rename(tmp_path / "gone")
    with pytest.raises(RunError, match=r"policy.use_peft needs the run's first weights, and .*0 is gone; put it back"):
        worker_at(tmp_path / "run", "policy.use_peft=true", resume=True)


def test_a_learner_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.actors.learner, "available_bytes", lambda: 1 << 20)
    with pytest.raises(ResourceError, match=r"micro-batch .* are free: lower learner.tokens_per_microbatch") as caught:
        worker_at(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "checkpoints").exists()
    monkeypatch.setattr(cluster.actors.learner, "available_bytes", lambda: 1 << 30)
    assert worker_at(tmp_path / "run").version() == 0
