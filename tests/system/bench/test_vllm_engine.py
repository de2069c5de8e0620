"""The vLLM bench, tiny: it measures every engine, swap and game that the full one does."""

from __future__ import annotations

import pytest

from cluster.bench.inference import vllm_engine as vllm
from cluster.bench.inference.vllm_engine import Large, Plan
from cluster.bench.inference.vllm_hosts import Load, Tables
from cluster.bench.inference.vllm_models import LargeShape

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

TABLES = Tables("one seat", 2, 1901, all_seats=False)
SHAPE = LargeShape("tiny", hidden_size=64, layers=2, heads=2, key_value_heads=1, intermediate_size=96, vocabulary=2_000)
SMALL = Plan(
    rows=8,
    loads=(Load(1, 2), Load(8, 16)),
    tables=(TABLES,),
    warm_up=TABLES,
    in_flight_at_swap=4,
    own_process=False,
    large=None,
)
LARGE = Large(SHAPE, rows=4, in_flight_at_swap=2, rounds=1, tables=(TABLES,))


def test_rates_swaps_and_games_are_measured_beside_their_yardsticks() -> None:
    figures = vllm.measure(SMALL, rounds=1)
    names = [figure.name for figure in figures]
    assert names[:4] == ["vLLM decisions, 1 in flight"] * 2 + ["vLLM completion tokens, 1 in flight"] * 2
    assert sum(name.startswith("vLLM weight swap, small policy") for name in names) == 4
    outside = [figure for figure in figures if figure.name.startswith("time outside the engine")]
    assert len(outside) == 2  # both engines
    assert all(0 < figure.ours < 100 for figure in outside)
    assert len(figures) == 8 + 4 + 2
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)


def test_a_tied_bfloat16_model_of_another_shape_is_swapped_and_plays() -> None:
    figures = vllm.large_figures(LARGE, rounds=2)
    assert [figure.name.partition(",")[0] for figure in figures] == ["vLLM weight swap"] * 4 + [
        "time outside the engine: tiny shape"
    ]
    assert all(figure.ours > 0 and figure.yardstick > 0 for figure in figures)
    assert "median of 1;" in figures[0].note  # at most as many rounds as the plan says
