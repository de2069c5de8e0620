"""The learner actor's worker: adapters across restarts, and a learner that would not fit in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cluster.actors.learner
from cluster.actors.learner import LearnerWorker
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.folders import checkpoint_versions, passed_over
from grpo_core.errors import CheckpointError, DivergenceError, ResourceError, StorageError
from grpo_core.learner import UpdateResult
from grpo_core.models.lora import adapter_config_of, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model
from grpo_core.types import Batch, Episode
from opponents.population.member import Member
from opponents.population.population import Population
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER, Generation, GenerationRequest
from services.metrics.catalogue import check
from services.replay.buffer import BlocksMissingError
from services.replay.memory_buffer import MemoryBuffer
from services.weights.payload import Payload
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

SMALL = (
    "policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32", "learner.tokens_per_microbatch=1024",
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


def worker_at(path: Path, *overrides: str, resume: bool = False, buffer: MemoryBuffer | None = None) -> LearnerWorker:
    path.mkdir(exist_ok=True)
    config = load_config("smoke", [*SMALL, *overrides])
    return LearnerWorker(config, str(path), buffer or MemoryBuffer(group_timeout_s=60), resume)


def updated(worker: LearnerWorker) -> tuple[dict[str, float], Payload]:
    worker._buffer.append(episodes(worker.version()))
    report, payload = worker.update(BLOCKS, 1.0)
    return dict(report.metrics), payload


@pytest.mark.parametrize("options", [(), ("policy.dtype=bfloat16",), ("learner.bf16=true",)])
def test_adapters_train_bit_for_bit_the_same_across_a_restart(tmp_path: Path, options: tuple[str, ...]) -> None:
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
    dtype = getattr(torch, worker._config.policy.dtype)
    first_weights, checkpoint = (named_tensors(load_model(run / "checkpoints" / name, dtype)[0]) for name in "03")
    sent = merged(first_weights, same.data)
    assert sent.keys() == checkpoint.keys()
    for name, tensor in checkpoint.items():
        assert torch.equal(sent[name], tensor), name


def test_policy_with_adapters_publishes_and_snapshots_only_them(tmp_path: Path) -> None:
    adapted = worker_at(tmp_path / "adapted", "policy.use_peft=true", "policy.lora_r=1")
    plain = worker_at(tmp_path / "plain")
    for worker, kind in ((adapted, True), (plain, False)):
        _, payload = updated(worker)
        assert (adapter_config_of(payload.data) is not None) == kind
        snapshot = tmp_path / "population" / f"{kind}.safetensors"
        assert worker.snapshot(str(snapshot)) == 1
        assert snapshot.read_bytes() == payload.data
        assert worker.last_report().weight_bytes == len(payload.data)
    assert len(adapted.publish().data) < 0.3 * len(plain.publish().data)


@pytest.mark.parametrize("source", ["made", "folder"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_engines_start_from_the_base_weights_of_the_adapter(tmp_path: Path, source: str, dtype: str) -> None:
    options = ["policy.use_peft=true", f"policy.dtype={dtype}"]
    if source == "folder":
        worker_at(tmp_path / "made")
        options += [f"policy.path={tmp_path / 'made' / 'checkpoints' / '0'}"]
    worker = worker_at(tmp_path / "run", *options)
    engine_model, _ = load_model(tmp_path / "run" / "checkpoints" / "0")  # as rollout actors load it
    base = named_tensors(engine_model)
    assert {tensor.dtype for tensor in base.values()} == {torch.float32}
    inner = worker._model.get_base_model()
    own = {name.replace(".base_layer.", "."): value for name, value in named_tensors(inner).items()}
    assert base.keys() == {name for name in own if ".lora_" not in name}
    for name, tensor in base.items():
        assert torch.equal(own[name].float(), tensor), name
    for name, tensor in merged(base, worker.publish().data).items():
        assert torch.equal(tensor, base[name]), "a fresh adapter changes nothing"


async def _load_together(rollouts: RolloutWorker, member: Member) -> None:
    """Two blocks meet a new snapshot at the same time: the engine loads it once."""
    loads: list[int] = []
    update_weights = rollouts._engine.update_weights

    async def counted(*arguments: Any, **keywords: Any) -> None:
        loads.append(1)
        await update_weights(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollouts._engine, "update_weights", counted)
        first, second = await asyncio.gather(rollouts._opponent(member), rollouts._opponent(member))
    assert first is second
    assert len(loads) == 1


@pytest.mark.parametrize("options", [(), ("policy.use_peft=true",), ("policy.use_peft=true", "policy.dtype=bfloat16")])
def test_rollout_actors_load_published_weights_and_snapshots(tmp_path: Path, options: tuple[str, ...]) -> None:
    worker = worker_at(tmp_path, *options)
    folder = RunFolder(tmp_path)
    rollouts = RolloutWorker(worker._config, str(folder.checkpoints / "0"), str(folder.population), None)
    population = Population(folder.population)
    for version in (0, 1):
        payload = updated(worker)[1] if version else worker.publish()
        asyncio.run(rollouts.swap(payload))
        frozen = tmp_path / f"v{payload.version}.safetensors"
        worker.snapshot(str(frozen))
        member = population.add_snapshot(frozen, version=payload.version)
        population.save()
        asyncio.run(_load_together(rollouts, member))

    async def decide(policy: str) -> Generation:
        return await rollouts._engine.generate(
            GenerationRequest((1, 5, 6), None, seed=3, max_completion_length=8, policy=policy)
        )

    learner, first, newest = (asyncio.run(decide(policy)) for policy in (LEARNER, "policy/v0", "policy/v1"))
    assert (learner.policy_version, first.policy_version, newest.policy_version) == (1, 0, 1)
    assert learner.completion_ids.tolist() == newest.completion_ids.tolist()
    assert learner.logprobs.tolist() == newest.logprobs.tolist() != first.logprobs.tolist()


def test_a_non_finite_metric_is_named_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_at(tmp_path / "run")
    step = worker._learner.step

    def overflown(batch: Batch, traced_tokens: int | None) -> UpdateResult:
        result = step(batch, traced_tokens)
        metrics, audit = {**result.metrics, "ratio_max": math.inf}, {**result.audit, "group_weights": {"a": None}}
        return dataclasses.replace(result, metrics=metrics, audit=audit)

    monkeypatch.setattr(worker._learner, "step", overflown)
    metrics, _ = updated(worker)
    check(metrics)
    report = worker.last_report()
    assert report is not None
    assert report.nonfinite == ("entente_group_weight{group=a}", "entente_ratio_max")
    assert report.role_episodes == dict.fromkeys(POWERS, 2)
    restarted = worker_at(tmp_path / "run", resume=True)
    assert restarted.last_report() == report


def test_a_half_written_checkpoint_is_skipped_and_a_damaged_one_raises_if_episodes_would_be_lost(
    tmp_path: Path,
) -> None:
    run, buffer = tmp_path / "run", MemoryBuffer(group_timeout_s=60)
    worker = worker_at(run, buffer=buffer)
    updated(worker)
    updated(worker)
    newest, unfinished = run / "checkpoints" / "2", run / "checkpoints" / "3"
    shutil.copytree(newest, unfinished)
    weights = (unfinished / "model.safetensors").read_bytes()
    (unfinished / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert worker_at(run, resume=True, buffer=buffer).version() == 2
    assert passed_over(run, 2) == (3,)
    altered = (newest / "model.safetensors").read_bytes()[:-1] + b"x"
    (newest / "model.safetensors").write_bytes(altered)
    with pytest.raises(CheckpointError, match=r"2: model.safetensors is not what was written"):
        worker_at(run, resume=True, buffer=buffer)
    (newest / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"1 is too old: the replay buffer has forgotten 14 episodes that only"):
        worker_at(run, resume=True, buffer=buffer)
    # A process that died before it acknowledged that checkpoint's episodes would lose nothing.
    assert worker_at(run, resume=True).version() == 1


def test_adapters_without_their_base_weights_are_refused(tmp_path: Path) -> None:
    worker = worker_at(tmp_path / "run", "policy.use_peft=true")
    updated(worker)
    (tmp_path / "run" / "checkpoints" / "0").rename(tmp_path / "gone")
    with pytest.raises(RunError, match=r"policy.use_peft needs the run's first weights, and .*0 is gone; put it back"):
        worker_at(tmp_path / "run", "policy.use_peft=true", resume=True)


def test_learner_that_does_not_fit_in_memory_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.actors.learner, "available_bytes", lambda: 1 << 20)
    with pytest.raises(ResourceError, match=r"micro-batch .* are free: lower learner.tokens_per_microbatch") as caught:
        worker_at(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "checkpoints").exists()
    monkeypatch.setattr(cluster.actors.learner, "available_bytes", lambda: 1 << 30)
    assert worker_at(tmp_path / "run").version() == 0


def test_checkpoint_on_disk_is_not_written_again(tmp_path: Path) -> None:
    # A run that is stopped just after a checkpoint requests it again, and may be killed during the second write.
    buffer = MemoryBuffer(group_timeout_s=60)
    worker = worker_at(tmp_path, buffer=buffer)
    updated(worker)
    before = (tmp_path / "checkpoints" / "1").stat().st_ino
    for again in (worker, worker_at(tmp_path, resume=True, buffer=buffer)):
        assert again.checkpoint() == str(tmp_path / "checkpoints" / "1")
        assert (tmp_path / "checkpoints" / "1").stat().st_ino == before
    updated(again)
    assert again.checkpoint() == str(tmp_path / "checkpoints" / "2")


def check_nothing_is_saved(worker: LearnerWorker, run: Path) -> None:
    """A checkpoint or snapshot that was requested during a failed update writes nothing."""
    for save in (worker.checkpoint, lambda: worker.snapshot(str(run / "population" / "v1.safetensors"))):
        with pytest.raises(RunError, match=r"under way failed, .* the last checkpoint is intact: go on with --resume"):
            save()
    assert not (run / "population").exists()
    assert checkpoint_versions(run) == (0,)


@pytest.mark.parametrize("fails", ["_sealed", "check_alike"])
def test_an_update_that_fails_after_its_step_is_not_saved_and_its_episodes_are_used_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_: object) -> None:
        raise StorageError("no space")

    run, buffer = tmp_path / "run", MemoryBuffer(group_timeout_s=60)
    worker = worker_at(run, buffer=buffer)
    with monkeypatch.context() as patch:
        patch.setattr(worker if fails == "_sealed" else cluster.actors.learner, fails, full)
        with pytest.raises(StorageError):
            updated(worker)
    assert worker.version() == 1
    assert len(worker._receipts) == 14  # recorded as soon as the weights have used them
    check_nothing_is_saved(worker, run)
    resumed = worker_at(run, resume=True, buffer=buffer)
    assert resumed.version() == 0
    resumed.update(BLOCKS, 1.0)
    assert buffer.stats()["acknowledged"] == 14
    assert checkpoint_versions(run) == (0, 1)


def test_weights_of_half_an_update_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_at(tmp_path / "run", "learner.minibatches=2", "learner.checkpoint_every=9")
    before = {name: tensor.clone() for name, tensor in named_tensors(worker._model).items()}
    gradient, calls = worker._learner._gradient, list[int]()

    def diverges(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise DivergenceError("the loss is nan")
        return gradient(*arguments)

    monkeypatch.setattr(worker._learner, "_gradient", diverges)
    with pytest.raises(DivergenceError):
        updated(worker)
    after = named_tensors(worker._model)
    assert any(not torch.equal(tensor, after[name]) for name, tensor in before.items())
    check_nothing_is_saved(worker, tmp_path / "run")


def test_an_update_that_lacks_its_blocks_changes_nothing_that_would_stop_a_save(tmp_path: Path) -> None:
    worker = worker_at(tmp_path / "run", "learner.checkpoint_every=9")
    updated(worker)
    with pytest.raises(BlocksMissingError):
        worker.update(BLOCKS, 0.01)
    assert worker.checkpoint().endswith("1")
