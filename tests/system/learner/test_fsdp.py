"""Two processes that share one policy make the update of one process."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.paths import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

WAIT_S = 900.0
LORA = {"use_peft": True, "lora_r": 3}
# Every part of the loss that the processes have to agree on.
FULL = {"decoupled": True, "entropy_coef": 0.01, "beta": 0.02, "tokens_per_microbatch": 256, "epochs": 2}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "plain": ("qwen3", FULL, {}),
    "tied": (
        "qwen2",
        {"tokens_per_microbatch": 256, "gradient_checkpointing": True, "activation_offloading": True},
        {},
    ),
    "free text": ("qwen3", {"tokens_per_microbatch": 256}, {}),
    "one micro-batch": ("qwen3", {"tokens_per_microbatch": 100_000}, {}),
    "adapters": ("qwen3", FULL, LORA),
    "bf16": ("llama", {"bf16": True, "tokens_per_microbatch": 256, "minibatches": 1}, {}),
}

RANK = """
import copy, dataclasses, json, os, sys
from pathlib import Path
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from grpo_core.models.lora import add_adapters
from grpo_core.errors import DivergenceError
from grpo_core.learner import Learner
from grpo_core.models.pretrained import plain_tensors
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.models.fsdp import process_group
from grpo_core.types import Batch
from grpo_core.training.policy_passes import PolicyPasses
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model

proximal, left_whole = PolicyPasses.proximal, []


def whole_parameters(module):
    return [name for name, value in module.named_parameters() if not hasattr(value, "full_tensor")]


def watched(passes, *arguments):
    values = proximal(passes, *arguments)
    left_whole.extend(whole_parameters(passes.forward))
    return values


PolicyPasses.proximal = watched
rank, ranks, address, timeout_s, folder, cases = *map(int, sys.argv[1:3]), *sys.argv[3:]
folder = Path(folder)
torch.set_num_threads(1)
with process_group(rank, ranks, address, timeout_s=float(timeout_s)) as sharding:
    for name, (architecture, learner, policy) in json.loads(cases).items():
        grouping = GroupingSettings(keys=("country",), min_group_size=2)
        settings = LearnerSettings(**learner, lr_warmup_updates=0)
        # In bf16 a difference of one rounding becomes one of 2**-9 in the next step.
        updates = 1 if settings.bf16 else 2

        def made():
            model = tiny_model(architecture)
            if policy:
                model = add_adapters(model, PolicySettings(**policy), seed=1)
            reference = copy.deepcopy(model) if settings.beta > 0 and not policy else None
            return Learner(model, settings, grouping, 5, reference=reference, sharding=sharding)

        one = made()
        parameters = sum(value.numel() for value in one.model.parameters())
        held = sum(getattr(value, "_local_tensor", value).numel() for value in one.model.parameters())
        free = name == "free text"
        batches = [Batch(ragged_episodes(version, count=12, free=free), version) for version in range(updates)]
        left_whole.clear()
        results = [one.step(batch) for batch in batches]
        metrics, digests = [result.metrics for result in results], [result.digests for result in results]
        if ranks > 1:
            # No rank keeps what it gathered: neither after the proximal policy's passes, nor the reference's.
            assert left_whole == [], left_whole
            assert whole_parameters(one._passes.forward) == []
            assert one._passes.reference is None or whole_parameters(one._passes.reference) == []
        # Other rewards on one rank are in no sum over the ranks.
        episodes = ragged_episodes(0, count=12, free=free)
        if rank == 1:
            worse = [[dataclasses.replace(turn, reward=-turn.reward) for turn in each.turns] for each in episodes]
            episodes = [dataclasses.replace(each, turns=tuple(t)) for each, t in zip(episodes, worse, strict=True)]
        apart = made().step(Batch(tuple(episodes), 0))
        state = one.state()
        # The whole state goes back into a sharded learner as it was.
        other = made()
        other.load_state(state)
        again = other.state()
        assert again.record == state.record
        assert all(torch.equal(again.tensors[key], value) for key, value in state.tensors.items())
        # Written tensor by tensor it is the same.
        file = folder / f"{name}-{ranks}-state.safetensors"
        assert one.save_state(file if rank == 0 else None) == state.record
        if rank == 0:
            stored = load_file(file)
            assert stored.keys() == state.tensors.keys()
            assert all(torch.equal(stored[key], value) for key, value in state.tensors.items())
        tensors = {key: value.contiguous() for key, value in plain_tensors(one.model).items()}
        if rank == 0:
            save_file({**tensors, **state.tensors}, folder / f"{name}-{ranks}.safetensors")
        # One turn's ratio overflows on one rank, and all ranks must raise.
        first, *rest = ragged_episodes(0, count=12)
        turn = dataclasses.replace(first.turns[1], logprobs=np.full_like(first.turns[1].logprobs, -300), reward=-99.0)
        first = dataclasses.replace(first, turns=(first.turns[0], turn, *first.turns[2:]))
        error_text = ""
        try:
            made().step(Batch((first, *rest), 0))
        except DivergenceError as error:
            error_text = str(error)
        record = {"metrics": metrics, "digests": digests, "held": held / parameters, "error_text": error_text}
        record["apart"] = {name: apart.metrics[name] for name in ("loss", "grad_norm")}
        record["apart_digests"] = apart.digests
        (folder / f"{name}-{ranks}-{rank}.json").write_text(json.dumps(record))
# What counts is on disk; a thread of torch that is not over would abort the end of the interpreter, as happened once.
sys.stdout.flush()
os._exit(0)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_ranks(ranks: int, folder: Path, *, absent: int | None = None, timeout_s: float = 60.0) -> list[tuple[int, str]]:
    """Exit status and output of each process; all processes are ended, even after an error."""
    address = f"tcp://127.0.0.1:{free_port()}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                RANK,
                str(rank),
                str(ranks),
                address,
                str(timeout_s),
                str(folder),
                json.dumps(CASES),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        for rank in range(ranks)
        if rank != absent
    ]
    try:
        outputs = [process.communicate(timeout=WAIT_S)[0] for process in started]
        return [(process.returncode, output) for process, output in zip(started, outputs, strict=True)]
    finally:
        for process in started:
            process.kill()
            process.wait(300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    for ranks in (1, 2):
        for code, output in run_ranks(ranks, path):
            assert code == 0, output
    return path


@pytest.mark.parametrize("case", CASES)
def test_two_processes_make_the_same_update_as_one(folder: Path, case: str) -> None:
    one, two = (load_file(folder / f"{case}-{ranks}.safetensors") for ranks in (1, 2))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert float((tensor - two[name]).abs().max()) < 1e-6, name
    alone, *both = (json.loads((folder / f"{case}-{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    assert alone["held"] == 1
    assert "is inf in update 1" in alone["error_text"]
    assert both[0]["apart"] == both[1]["apart"]
    same, other = both[0]["apart_digests"], both[1]["apart_digests"]
    assert {name for name in same if same[name] != other[name]} == {"advantages", "running baselines"}
    for record in both:
        assert record["digests"] == alone["digests"]
        assert record["held"] < 0.55
        assert record["error_text"] == alone["error_text"]
        for metrics, expected in zip(record["metrics"], alone["metrics"], strict=True):
            assert metrics.keys() == expected.keys()
            for name in metrics.keys() - {"seconds", "tokens_per_second"}:
                assert math.isclose(metrics[name], expected[name], rel_tol=1e-4, abs_tol=1e-6), name


def test_a_missing_process_is_an_error_within_the_time_limit(tmp_path: Path) -> None:
    ((code, output),) = run_ranks(2, tmp_path, absent=1, timeout_s=2)
    assert code != 0
    assert "imed out" in output
    assert not list(tmp_path.iterdir())
