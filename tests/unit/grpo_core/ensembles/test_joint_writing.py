"""Joint writing against models made by hand: tables of probabilities by what was written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from grpo_core.ensembles.joint_writing import mean_distribution, write_together


def table(probabilities: dict[tuple[int, ...], list[float]]) -> Callable[[Sequence[int]], Tensor]:
    def agent(written: Sequence[int]) -> Tensor:
        return torch.tensor(probabilities[tuple(written)]).log() + 3.0  # logits are known up to a constant

    return agent


def until(length: int, end: int | None = None) -> Callable[[int], bool]:
    written: list[int] = []

    def advance(token: int) -> bool:
        written.append(token)
        return len(written) == length or token == end

    return advance


def test_the_mean_is_of_probabilities_and_not_of_logits() -> None:
    # One agent is sure of 0, two prefer 1: the mean of logits would take 1.
    logits = torch.tensor([[0.98, 0.01, 0.01], [0.4, 0.5, 0.1], [0.4, 0.5, 0.1]]).log()
    expected = [(0.98 + 0.4 + 0.4) / 3, (0.01 + 0.5 + 0.5) / 3, (0.01 + 0.1 + 0.1) / 3]
    assert mean_distribution(logits).tolist() == pytest.approx(expected)
    sharp = torch.tensor([[0.0, 1000.0], [1000.0, 999.0]])
    second = 1 / (1 + math.e)
    assert mean_distribution(sharp).tolist() == pytest.approx([(1 - second) / 2, (1 + second) / 2])


def test_each_token_is_the_likeliest_under_the_mean_after_the_same_text() -> None:
    first = table({(): [0.7, 0.2, 0.1], (0,): [0.1, 0.5, 0.4], (0, 2): [0.5, 0.4, 0.1]})
    second = table({(): [0.4, 0.5, 0.1], (0,): [0.1, 0.2, 0.7], (0, 2): [0.1, 0.8, 0.1]})
    written = write_together([first, second], until(3))
    assert written.ids == (0, 2, 1)
    means = [(0.7 + 0.4) / 2, (0.4 + 0.7) / 2, (0.4 + 0.8) / 2]
    assert written.logprobs == pytest.approx([math.log(mean) for mean in means])


def test_it_stops_when_told_and_one_agent_writes_greedily() -> None:
    only = table({(): [0.1, 0.9], (1,): [0.6, 0.4]})
    assert write_together([only], until(9, end=0)).ids == (1, 0)


def test_of_equals_the_lowest_id_is_taken() -> None:
    assert write_together([table({(): [0.2, 0.4, 0.4]})], until(1)).ids == (1,)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused(wrong: float) -> None:
    with pytest.raises(FloatingPointError, match="not finite"):
        write_together([lambda _: torch.tensor([0.0, wrong])], until(1))
