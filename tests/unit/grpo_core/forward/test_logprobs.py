import dataclasses

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from grpo_core.batching.microbatches import micro_batches, split_by_budget, split_minibatches, training_turns
from grpo_core.forward.hidden_states import has_plain_blocks, hidden_at
from grpo_core.forward.logprobs import check_head, token_logprobs
from tests.unit.grpo_core.support.cases import (
    VOCABULARY,
    episode_of,
    forced_turn,
    ragged_episodes,
    ragged_turn,
    tiny_model,
)


def dense(model, turn):
    """Log-probabilities and entropies of one turn's trained tokens by one whole forward pass and a -inf mask."""
    text = torch.from_numpy(np.concatenate([turn.prompt_ids, turn.completion_ids])).long()
    logits = model(input_ids=text[None]).logits[0] / turn.temperature
    chosen, entropies = [], []
    for sample, index in enumerate(np.flatnonzero(turn.trained_mask)):
        mask = torch.zeros(VOCABULARY)
        if len(turn.admissible_offsets):
            start, end = turn.admissible_offsets[sample : sample + 2]
            mask = torch.full((VOCABULARY,), 0.0 if start == end else -torch.inf)
            mask[turn.admissible_ids[start:end].tolist()] = 0
        logs = torch.log_softmax(logits[len(turn.prompt_ids) + index - 1] + mask, -1)
        chosen.append(logs[int(turn.completion_ids[index])])
        possible = logs[logs > -torch.inf]
        entropies.append(-(possible.exp() * possible).sum())
    return torch.stack(chosen), torch.stack(entropies)


def trained_turns(episodes):
    return [turn for episode in episodes for turn in episode.turns if turn.trained_mask.any()]


def ours(model, episodes, budget, entropy_grad=True):
    """The same, micro-batched; in the turns' own order again."""
    turns = training_turns(episodes, 0)
    parts = {}
    for micro in micro_batches(turns, np.zeros(len(turns), np.float32), np.ones(len(turns)), budget):
        chosen, entropy = token_logprobs(model, micro, entropy_grad=entropy_grad)
        sizes = [next(len(t.position_S) for t in turns if t.turn == index) for index in micro.turns]
        parts |= dict(
            zip(
                micro.turns,
                zip(chosen.split(sizes), entropy.split(sizes), strict=True),
                strict=True,
            )
        )
    ordered = [parts[turn.turn] for turn in turns]
    return torch.cat([chosen for chosen, _ in ordered]), torch.cat([entropy for _, entropy in ordered])


@pytest.mark.parametrize(
    ("architecture", "free", "temperature"),
    [
        ("qwen3", False, 1.0),
        ("qwen3", False, 0.7),
        ("qwen3", True, 1.3),
        ("llama", False, 0.7),
        ("qwen2", True, 1.3),
    ],
)
def test_values_and_gradients_equal_a_dense_pass_under_every_token_budget(architecture, free, temperature):
    model = tiny_model(architecture)
    assert has_plain_blocks(model.get_decoder().config)
    episodes = ragged_episodes(1, count=6, free=free, temperature=temperature)
    rows = [dense(model, turn) for turn in trained_turns(episodes)]
    expected = torch.cat([chosen for chosen, _ in rows]), torch.cat([entropy for _, entropy in rows])
    wave = torch.sin(torch.arange(len(expected[0])))  # any fixed weighting: each token's gradient counts differently
    gradients = torch.autograd.grad(((expected[0] + 0.3 * expected[1]) * wave).sum(), list(model.parameters()))
    for budget in (24, 100, 10_000):
        chosen, entropy = ours(model, episodes, budget)
        torch.testing.assert_close(chosen, expected[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(entropy, expected[1], atol=1e-5, rtol=0)
        own = torch.autograd.grad(((chosen + 0.3 * entropy) * wave).sum(), list(model.parameters()))
        for one, other in zip(own, gradients, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_free_and_constrained_turns_can_share_a_micro_batch():
    model = tiny_model()
    rng = np.random.default_rng(3)
    turns = tuple(ragged_turn(rng, free=index % 2 == 0) for index in range(6))
    chosen, _ = ours(model, [episode_of(turns)], 10_000)
    torch.testing.assert_close(chosen, torch.cat([dense(model, turn)[0] for turn in turns]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_thought_and_orders_in_one_turn_equal_a_dense_pass(temperature):
    model = tiny_model()
    rng = np.random.default_rng(5)
    turns = tuple(ragged_turn(rng, thought=index, temperature=temperature) for index in range(6))
    masks = [np.diff(turn.admissible_offsets) > 0 for turn in turns]
    assert any(mask.any() and not mask.all() for mask in masks)
    rows = [dense(model, turn) for turn in turns]
    expected = torch.cat([chosen for chosen, _ in rows]), torch.cat([entropy for _, entropy in rows])
    wave = torch.sin(torch.arange(len(expected[0])))
    gradients = torch.autograd.grad(((expected[0] + 0.3 * expected[1]) * wave).sum(), list(model.parameters()))
    for budget in (24, 10_000):
        chosen, entropy = ours(model, [episode_of(turns)], budget)
        torch.testing.assert_close(chosen, expected[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(entropy, expected[1], atol=1e-5, rtol=0)
        own = torch.autograd.grad(((chosen + 0.3 * entropy) * wave).sum(), list(model.parameters()))
        for one, other in zip(own, gradients, strict=True):
            torch.testing.assert_close(one, other, atol=5e-5, rtol=1e-4)


def test_other_architectures_run_their_own_forward_pass():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=1
        )
    ).eval()
    assert not has_plain_blocks(model.get_decoder().config)
    chosen, _ = ours(model, ragged_episodes(2), 100)
    expected = torch.cat([dense(model, turn)[0] for turn in trained_turns(ragged_episodes(2))])
    torch.testing.assert_close(chosen, expected, atol=1e-5, rtol=0)


def test_padding_does_not_change_hidden_states():
    model = tiny_model()
    ids = torch.randint(3, VOCABULARY, (3, 12))
    index = torch.tensor([4, 7, 12 + 2, 24 + 9])
    padded = torch.nn.functional.pad(ids, (0, 8))
    shifted = index % 12 + index // 12 * 20
    torch.testing.assert_close(hidden_at(model, padded, shifted), hidden_at(model, ids, index), atol=1e-5, rtol=0)


def test_entropy_carries_a_gradient_only_when_asked_for():
    model = tiny_model()
    assert not ours(model, ragged_episodes(1), 100, entropy_grad=False)[1].requires_grad
    assert ours(model, ragged_episodes(1), 100, entropy_grad=True)[1].requires_grad


def test_models_that_cap_their_logits_are_refused():
    model = tiny_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="final_logit_softcapping"):
        check_head(model)


def test_forced_tokens_after_the_last_choice_and_turns_without_choice_are_not_forwarded():
    rng = np.random.default_rng(0)
    turn = ragged_turn(rng)
    (kept,) = training_turns([episode_of((forced_turn(rng), turn))], 4)
    last = int(np.flatnonzero(turn.trained_mask)[-1])
    assert kept.turn == 1
    assert kept.staleness == 4
    assert len(kept.input_ids) == len(turn.prompt_ids) + last
    assert kept.position_S[-1] == len(kept.input_ids) - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logprobs": np.zeros(40, np.float32)}, "differ in length"),
        ({"temperature": 0.0}, "temperature"),
        ({"prompt_ids": np.zeros(0, np.int32)}, "prompt is empty"),
        ({"admissible_ids": np.zeros(200, np.int32)}, "admissible offsets"),
    ],
)
def test_inconsistent_turns_are_refused_by_name(change, message):
    turn = dataclasses.replace(ragged_turn(np.random.default_rng(0)), **change)
    with pytest.raises(ValueError, match=message) as caught:
        training_turns([episode_of((turn,), name="b7/3")], 0)
    assert "b7/3, phase S1901M" in str(caught.value)


def test_a_sampled_token_must_be_admissible():
    turn = ragged_turn(np.random.default_rng(0))
    wrong = np.where(turn.trained_mask, 2, turn.completion_ids).astype(np.int32)  # no set holds id 2
    with pytest.raises(ValueError, match="not among its admissible ids"):
        training_turns([episode_of((dataclasses.replace(turn, completion_ids=wrong),))], 0)


def test_micro_batches_hold_every_turn_once_within_the_token_budget():
    lengths = np.random.default_rng(0).integers(1, 60, 200).tolist()
    chunks = split_by_budget(lengths, 256)
    assert sorted(index for chunk in chunks for index in chunk) == list(range(200))
    padded = [len(chunk) * max(lengths[index] for index in chunk) for chunk in chunks]
    assert max(padded) <= 256
    assert sum(padded) < 1.1 * sum(lengths)
    assert split_by_budget([300, 5], 256) == [[0], [1]]


def test_minibatches_partition_turns_and_keep_episodes_whole_under_the_episode_normaliser():
    turns = training_turns(ragged_episodes(4, count=20), 0)
    for normalizer in ("token", "turn", "episode"):
        shares = split_minibatches(turns, normalizer, 3, np.random.default_rng(1))
        assert len(shares) == 3
        assert sorted(np.concatenate(shares)) == list(range(len(turns)))
        owners = [{turns[index].episode for index in share} for share in shares]
        together = all(a.isdisjoint(b) for a in owners for b in owners if a is not b)
        assert together == (normalizer == "episode")
        again = split_minibatches(turns, normalizer, 3, np.random.default_rng(1))
        assert [share.tolist() for share in again] == [share.tolist() for share in shares]
    assert len(split_minibatches(turns[:2], "turn", 5, np.random.default_rng(1))) == 2
    assert split_minibatches([], "turn", 2, np.random.default_rng(1)) == []
