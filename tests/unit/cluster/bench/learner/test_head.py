import numpy as np
import pytest
import torch
from torch import nn

from cluster.bench.learner import head
from grpo_core.batching.microbatches import MicroBatch

VOCABULARY = 1_200


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return head.fast_model(VOCABULARY)


@pytest.fixture(scope="module")
def micro() -> MicroBatch:
    return head.masked_batches(VOCABULARY, episodes=4)[0]


def test_reference_head_is_a_softmax_over_the_admissible_ids(model: nn.Module, micro: MicroBatch) -> None:
    with torch.no_grad():
        found = head.full_vocabulary_logprobs(model, micro)
        logits = model(input_ids=micro.input_ids).logits.flatten(0, 1)[micro.hidden_index_N]
    for token in range(0, len(found), 17):
        mine = (micro.admissible_row_A == token).nonzero().squeeze(1)
        ids = micro.union_id_U[micro.admissible_column_A[mine]].tolist()
        chosen = mine.tolist().index(int(micro.chosen_M[token]))
        scores = [float(logits[token, one]) for one in ids]
        expected = scores[chosen] - np.log(sum(np.exp(scores)))
        assert float(found[token]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("wrong", ["value", "gradient"])
def test_differing_heads_raise(
    wrong: str, model: nn.Module, micro: MicroBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = head.token_logprobs

    def differing(*args) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, entropy = right(*args)
        changed = 1.01 * chosen if wrong == "value" else chosen + 0.01 * (chosen - chosen.detach())
        return changed, entropy

    monkeypatch.setattr(head, "token_logprobs", differing)
    with pytest.raises(RuntimeError, match="disagree"):
        head.check_agreement(model, micro)


def test_head_figures_name_what_they_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
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
