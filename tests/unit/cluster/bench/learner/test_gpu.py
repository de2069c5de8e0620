"""The GPU bench's own code on the CPU, with a tiny shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cluster.bench import suite
from cluster.bench.figure import MissingRequirementError
from cluster.bench.learner import gpu
from cluster.bench.models import qwen2_config, random_model
from grpo_core.batching.microbatches import training_turns

CPU = torch.device("cpu")
TINY = gpu.Case(
    "tiny",
    qwen2_config(64, 96, 2, 4, 2, 1_200, tied=True),
    gradient_checkpointing=True,
    tokens_per_microbatch=2048,
    prompt=(10, 30),
    completion=(3, 12),
)
UNTIED = qwen2_config(64, 96, 2, 4, 2, 1_200, tied=False)


def test_the_bench_of_a_tiny_shape_has_figures_with_units() -> None:
    found = gpu.figures(TINY, CPU, ceiling=1e12, rounds=1)
    assert [figure.unit for figure in found] == ["tokens/s", "%"] * 2  # a CPU keeps no count of its memory
    episodes = TINY.episodes("free")
    tokens, flops = (
        sum(each.tokens for each in episodes),
        gpu.step_flops(TINY.config, training_turns(episodes, 0), recomputed=False),
    )
    for rate, share in (found[:2], found[2:]):
        for rate_of, share_of in ((rate.ours, share.ours), (rate.yardstick, share.yardstick)):
            assert share_of == pytest.approx(100 * flops / (tokens / rate_of) / 1e12)
        assert "with recomputed work" in share.note


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("whole", [True, False])
def test_both_sides_compute_the_same_loss(whole: bool) -> None:
    case = dataclasses.replace(TINY, gradient_checkpointing=not whole, config=UNTIED if whole else TINY.config)
    losses = [gpu.make_step(random_model(case.config).float(), case, side)()["loss"] for side in ("free", "plain")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_differing_sides_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "measure", lambda case, side, device, rounds: gpu.Measured(0.1 * (side == "plain"), 1, 1))
    with pytest.raises(RuntimeError, match="cannot be compared"):
        gpu.figures(TINY, CPU, 1e12, 1)


def test_step_needs_six_operations_a_parameter_and_token_and_the_attention() -> None:
    turns = training_turns(TINY.episodes("free"), 0)
    model = random_model(UNTIED)
    matrices = sum(p.numel() for name, p in model.named_parameters() if "layers" in name and p.ndim == 2)
    tokens, sampled = sum(len(t.input_ids) for t in turns), sum(len(t.position_S) for t in turns)
    attention = sum(6 * 2 * 64 * len(turn.input_ids) ** 2 for turn in turns)
    head = 6 * 64 * 1_200 * sampled
    assert gpu.step_flops(TINY.config, turns, recomputed=False) == 6 * matrices * tokens + attention + head
    assert gpu.step_flops(TINY.config, turns, recomputed=True) == (6 * matrices * tokens + attention) * 8 / 6 + head


@pytest.mark.parametrize(("case", "billions"), list(zip(gpu.CASES, (1.544, 7.616), strict=True)))
def test_shapes_have_the_published_sizes(case: gpu.Case, billions: float) -> None:
    model = random_model(case.config, "meta")
    assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(billions, abs=0.001)


def test_the_measured_ceiling_is_a_rate() -> None:
    assert 1e6 < gpu.product_ceiling(CPU, (32, 64), repeats=2) < 1e16


def test_without_a_gpu_the_bench_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingRequirementError, match="no CUDA GPU"):
        gpu.run(1)
    gpu.main(["--json", str(tmp_path / "gpu.json")])
    assert capsys.readouterr().out == "no CUDA GPU: skipped\n"
    assert not list(tmp_path.iterdir())
    assert "gpu" in suite.SUITE
