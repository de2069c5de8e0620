"""Equal inputs give equal bits wherever they lie in memory; other numbers of threads give nearly equal ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cluster.runtime.actor_env import actor_variables
from grpo_core.learner import Learner
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model, save_model
from grpo_core.reproducible import SETTING, VARIABLE, mkl_mode
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY, ragged_episodes, tiny_model

ALIGNMENTS = range(16)  # in numbers of four bytes, up to a cache line


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_actors_use_their_drivers_mkl_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert actor_variables(1)[VARIABLE] == os.environ[VARIABLE]
    monkeypatch.setenv(VARIABLE, "COMPATIBLE")
    assert actor_variables(1)[VARIABLE] == "COMPATIBLE"
    monkeypatch.delenv(VARIABLE)
    assert actor_variables(1)[VARIABLE] == SETTING


def placed(values: Tensor, offset: int) -> Tensor:
    """A copy that lies ``offset`` numbers behind a cache line's beginning."""
    room = torch.empty(values.numel() + 32)
    begin = -room.data_ptr() // 4 % 16 + offset
    return room[begin : begin + values.numel()].view(values.shape).copy_(values)


@pytest.mark.skipif(mkl_mode() is None, reason="this torch is built without MKL")
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("rows", [1, 2, 7, 64, 513])
def test_matrix_products_do_not_depend_on_memory_alignment(rows: int, count: int, threads: None) -> None:
    torch.set_num_threads(count)
    generator = torch.Generator().manual_seed(rows)
    for width, out in ((128, 512), (128, 384), (64, 400)):
        left = torch.randn(rows, width, generator=generator)
        right = torch.randn(out, width, generator=generator)
        across = right.t().contiguous()
        with_rows, with_columns = left @ right.t(), left @ across
        for offset in ALIGNMENTS[:: 1 if count == 1 else 5]:  # more threads than cores wait for one another
            moved = placed(left, offset)
            assert torch.equal(moved @ placed(right, 5 * offset % 16).t(), with_rows)
            assert torch.equal(moved @ placed(across, 3 * offset % 16), with_columns)


def test_loaded_weights_are_aligned_like_created_ones(tmp_path: Path) -> None:
    tokenizer = make_word_tokenizer([f"w{number}" for number in range(VOCABULARY - 4)], r"\S+")
    for architecture in ("qwen2", "qwen3"):  # with tied embeddings and without
        model = tiny_model(architecture)
        save_model(model, tokenizer, tmp_path / architecture)
        loaded, _ = load_model(tmp_path / architecture)
        assert all(tensor.data_ptr() % 64 == 0 for tensor in loaded.parameters())
        assert named_tensors(loaded).keys() == named_tensors(model).keys()
        for name, tensor in named_tensors(model).items():
            assert torch.equal(named_tensors(loaded)[name], tensor), name


def weights_after(updates: int) -> dict[str, Tensor]:
    settings = LearnerSettings(learning_rate=0.01, lr_warmup_updates=0, tokens_per_microbatch=256)
    learner = Learner(tiny_model(), settings, GroupingSettings(min_group_size=2), seed=3)
    for update in range(updates):
        learner.step(Batch(ragged_episodes(update), learner.version))
    return {name: tensor.detach() for name, tensor in named_tensors(learner.model).items()}


@pytest.fixture(scope="module")
def alone() -> dict[str, Tensor]:
    """Weights that one thread gives."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    weights = weights_after(2)
    torch.set_num_threads(before)
    return weights


@pytest.mark.parametrize("count", [1, 2, 8])
def test_equal_thread_counts_give_equal_weights_and_others_nearly_equal_ones(
    count: int, alone: dict[str, Tensor], threads: None
) -> None:
    torch.set_num_threads(count)
    once, again = weights_after(2), weights_after(2)
    assert all(torch.equal(once[name], again[name]) for name in once)
    # Sums are split among threads, so that their last bits differ. AdamW divides a gradient by its own size, and where
    # the gradient is rounding alone, a step may turn round: by no more than the two steps of 0.01 and back.
    for name, tensor in alone.items():
        difference = (once[name] - tensor).abs()
        assert difference.max() <= 4 * 0.01, name
        assert difference.mean() < 1e-4, name
