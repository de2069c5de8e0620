import dataclasses

import numpy as np
import pytest
import torch

from cluster.bench import memory
from cluster.bench.learner import head
from cluster.bench.learner.step import ragged_episodes
from cluster.bench.memory import peak_growth_mb, peak_is_measurable
from grpo_core.forward.logprobs import TokenLogprobs
from grpo_core.types import Episode

VOCABULARY = 1_200


def test_ids_are_spread_and_everything_else_stays() -> None:
    before = ragged_episodes(seed=11)[:2]
    after = head.spread(before, VOCABULARY)
    for old, new in zip(turns_of(before), turns_of(after), strict=True):
        assert np.array_equal(new.prompt_ids, 3 * old.prompt_ids)
        assert np.array_equal(new.completion_ids, 3 * old.completion_ids)
        assert np.array_equal(new.admissible_ids, 3 * old.admissible_ids)
        assert new.admissible_offsets is old.admissible_offsets
        assert new.logprobs is old.logprobs
        assert new.completion_ids.max() < VOCABULARY


def turns_of(episodes: tuple[Episode, ...]) -> list:
    return [turn for episode in episodes for turn in episode.turns]


def test_the_yardstick_is_a_softmax_over_the_admissible_ids() -> None:
    model, micro = head.small_policy(VOCABULARY), head.ragged_microbatches(VOCABULARY, episodes=2)[0]
    with torch.no_grad():
        found = head.full_vocabulary_logprobs(model, micro)
        logits = model(input_ids=micro.input_ids).logits.flatten(0, 1)[micro.hidden_index_N]
    for token in range(0, len(found), 17):
        mine = (micro.admissible_row_A == token).nonzero().squeeze(1)
        ids = micro.union_id_U[micro.admissible_column_A[mine]].tolist()
        chosen = mine.tolist().index(int(micro.chosen_N[token]))
        scores = [float(logits[token, one]) for one in ids]
        expected = scores[chosen] - np.log(sum(np.exp(scores)))
        assert float(found[token]) == pytest.approx(expected, abs=1e-5)


def test_both_heads_agree() -> None:
    head.check_agreement(head.small_policy(VOCABULARY), head.ragged_microbatches(VOCABULARY, episodes=2)[0])


@pytest.mark.parametrize("wrong", ["value", "gradient"])
def test_a_head_that_differs_is_not_timed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = head.token_logprobs

    def differing(*args) -> TokenLogprobs:
        found = right(*args)
        chosen = found.chosen_N
        changed = 1.01 * chosen if wrong == "value" else chosen + 0.01 * (chosen - chosen.detach())
        return dataclasses.replace(found, chosen_N=changed)

    monkeypatch.setattr(head, "token_logprobs", differing)
    with pytest.raises(RuntimeError, match="disagree"):
        head.check_agreement(head.small_policy(VOCABULARY), head.ragged_microbatches(VOCABULARY, episodes=2)[0])


def test_figures_stand_beside_their_yardstick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "VOCABULARIES", (VOCABULARY,))
    monkeypatch.setattr(head, "peak_is_measurable", lambda: True)
    monkeypatch.setattr(
        head, "in_fresh_process", lambda function, vocabulary, side: {"sparse": 10.0, "full": 40.0}[side]
    )
    time, peak = head.run(rounds=1)
    assert time.lower_is_better
    assert peak.lower_is_better
    assert min(time.ours, time.yardstick) > 0
    assert (peak.unit, peak.ours, peak.yardstick, peak.ratio) == ("MB", 10, 40, 4)


@pytest.mark.skipif(not peak_is_measurable(), reason="the kernel keeps no peak that can start anew")
def test_peak_is_of_the_work_alone() -> None:
    earlier = bytes([1]) * 150_000_000
    del earlier  # a higher peak, before the clock
    kept = bytes([1]) * 50_000_000

    def work() -> None:
        passing = bytes([2]) * 80_000_000
        del passing

    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert peak_growth_mb(lambda: None) < 10
    assert len(kept) == 50_000_000


@pytest.mark.skipif(not peak_is_measurable(), reason="the kernel keeps no peak that can start anew")
def test_work_is_not_served_from_what_a_warm_up_left() -> None:
    def work() -> None:
        pieces = [torch.ones(5_000) for _ in range(4_000)]  # small enough for the allocator's own heap
        del pieces[:-1]

    work()
    last = torch.ones(5_000)  # lies above what was freed and keeps the heap from shrinking by itself
    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert peak_growth_mb(work) == pytest.approx(80, abs=10)
    assert len(last) == 5_000


def test_a_fresh_process_gives_its_result_back() -> None:
    assert memory.in_fresh_process(pow, 3, 4) == 81
