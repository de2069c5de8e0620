"""The vLLM bench, tiny: it measures every engine, swap and game that the full one does."""

from __future__ import annotations

import pytest

from cluster.bench.inference import vllm_engine as vllm
from cluster.bench.inference.hosts import Games, Load
from cluster.bench.inference.vllm_engine import Plan
from cluster.bench.models import qwen2_config

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

GAMES = Games("one seat", 2, 1901, all_seats=False)
SHAPE = qwen2_config(64, 96, 2, 2, 1, 2_000, tied=True)
SMALL = Plan("small policy", None, ("torch", "actor"), 8, (Load(1, 2), Load(8, 16)), 4, (GAMES,))
LARGE = Plan("tiny shape", SHAPE, ("actor",), 4, (), 2, (GAMES,), needed_bytes=1)


def test_the_vllm_bench_compares_rates_swaps_and_games_with_references() -> None:
    figures = vllm.measure(SMALL, rounds=1)
    names = [figure.name for figure in figures]
    assert names[:4] == ["vLLM decisions, 1 in flight"] * 2 + ["vLLM completion tokens, 1 in flight"] * 2
    assert sum(name.startswith("vLLM weight swap, small policy") for name in names) == 4
    outside = [figure for figure in figures if figure.name.startswith("time outside the engine")]
    assert len(outside) == 2  # both engines
    assert all(0 < figure.ours < 100 for figure in outside)
    assert len(figures) == 8 + 4 + 2
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)


def test_a_tied_bfloat16_model_of_another_shape_is_swapped_and_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "available_bytes", lambda: LARGE.needed_bytes)
    figures = vllm.measure(LARGE, rounds=1)
    assert [figure.name.partition(",")[0] for figure in figures] == ["vLLM weight swap"] * 4 + [
        "time outside the engine: tiny shape"
    ]
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)
