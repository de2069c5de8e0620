"""Behavior cloning: the loss is the cross-entropy of the chosen ids among the admissible ones, and it falls."""

from __future__ import annotations

import copy
import math
from typing import Literal

import numpy as np
import pytest
import torch

from grpo_core.batching.microbatches import TrainingTurn, training_turn
from grpo_core.errors import DivergenceError
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from grpo_core.training.behavior_cloning import FINAL_SHARE, MUON_FACTOR, BehaviorCloner, schedule
from grpo_core.types import Turn

VOCABULARY = 40


def make_model(seed: int = 0) -> torch.nn.Module:
    settings = PolicySettings(hidden_size=32, layers=1, intermediate_size=32)
    return make_small_model(settings, VOCABULARY, eos_id=1, bos_id=None, pad_id=0, seed=seed)


def make_turns(count: int, seed: int) -> list[TrainingTurn]:
    """Turns whose chosen tokens follow from the last token of the prompt."""
    generator = np.random.default_rng(seed)
    turns = []
    for index in range(count):
        prompt = generator.integers(2, VOCABULARY, size=generator.integers(2, 6)).astype(np.int32)
        ids = np.sort(generator.choice(np.arange(2, VOCABULARY), size=4, replace=False)).astype(np.int32)
        chosen = ids[prompt[-1] % 4]
        turn = Turn(
            prompt_ids=prompt,
            completion_ids=np.array([chosen, 1], np.int32),
            logprobs=np.zeros(2, np.float32),
            trained_mask=np.array([True, False]),
            admissible_ids=ids,
            admissible_offsets=np.array([0, 4], np.int32),
            policy_version=0,
            temperature=1.0,
            phase="S1901M",
        )
        turns.append(training_turn(turn, index, 0, 0))
    return turns


def test_the_loss_is_cross_entropy_over_the_admissible_ids() -> None:
    model, turns = make_model(), make_turns(9, seed=1)
    expected = []
    with torch.no_grad():
        for turn in turns:
            logits = model(torch.tensor(turn.input_ids, dtype=torch.long)[None]).logits[0, -1]
            among = torch.log_softmax(logits[torch.tensor(turn.admissible_id_A)].double(), 0)
            expected.append(-float(among[int(turn.chosen[0])]))
    cloner = BehaviorCloner(model, learning_rate=1e-3, steps=3, tokens_per_microbatch=16)
    assert cloner.held_out(turns) == pytest.approx(np.mean(expected), abs=1e-5)
    assert cloner.step(turns) == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.parametrize(("optimizer", "learning_rate"), [("adamw", 1e-2), ("muon", 2e-3)])
def test_behavior_cloning_generalises_to_unseen_turns(
    optimizer: Literal["adamw", "muon"], learning_rate: float
) -> None:
    turns, unseen = make_turns(600, seed=2), make_turns(100, seed=3)
    cloner = BehaviorCloner(make_model(), learning_rate=learning_rate, steps=60, optimizer=optimizer)
    before = cloner.held_out(unseen)
    for step in range(60):
        cloner.step(turns[step % 3 * 200 : step % 3 * 200 + 200])
    assert before == pytest.approx(math.log(4), abs=0.02)
    assert cloner.held_out(unseen) < 0.85 * before


def test_by_turns_a_short_answer_weighs_as_much_as_a_long_one() -> None:
    model = make_model()
    short, long = make_turns(1, seed=1)[0], longer_turn(seed=2)
    losses = [
        BehaviorCloner(copy.deepcopy(model), learning_rate=1e-3, steps=1).held_out([turn]) for turn in (short, long)
    ]
    tokens = [len(turn.position_S) for turn in (short, long)]
    assert tokens == [1, 3]
    by_turn = BehaviorCloner(
        copy.deepcopy(model), learning_rate=1e-3, steps=1, normalizer="turn", tokens_per_microbatch=16
    )
    by_token = BehaviorCloner(copy.deepcopy(model), learning_rate=1e-3, steps=1, tokens_per_microbatch=16)
    assert by_turn.step([short, long]) == pytest.approx(np.mean(losses), abs=1e-5)
    assert by_token.step([short, long]) == pytest.approx(np.average(losses, weights=tokens), abs=1e-5)


def longer_turn(seed: int) -> TrainingTurn:
    """A turn with three trained tokens, each among four admissible ids."""
    generator = np.random.default_rng(seed)
    ids = [
        np.sort(generator.choice(np.arange(2, VOCABULARY), size=4, replace=False)).astype(np.int32) for _ in range(3)
    ]
    turn = Turn(
        prompt_ids=np.array([5, 6], np.int32),
        completion_ids=np.array([*(each[0] for each in ids), 1], np.int32),
        logprobs=np.zeros(4, np.float32),
        trained_mask=np.array([True, True, True, False]),
        admissible_ids=np.concatenate(ids),
        admissible_offsets=np.array([0, 4, 8, 12], np.int32),
        policy_version=0,
        temperature=1.0,
        phase="S1901M",
    )
    return training_turn(turn, 0, 0, 0)


def test_micro_batches_do_not_change_a_step() -> None:
    weights = []
    for budget in (8, 4096):
        model = make_model()
        BehaviorCloner(model, learning_rate=1e-2, steps=2, tokens_per_microbatch=budget).step(make_turns(20, seed=4))
        weights.append(torch.cat([value.detach().flatten() for value in model.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], atol=2e-5, rtol=0)


def test_muon_moves_the_matrices_of_blocks_and_adamw_the_rest() -> None:
    model = make_model()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    BehaviorCloner(model, learning_rate=1e-3, steps=1, optimizer="muon").step(make_turns(20, seed=4))
    for name, value in model.named_parameters():
        moved = value.detach() - before[name]
        if name.endswith("_proj.weight"):
            # An orthogonalised update: its largest singular value is about 1, whatever the gradient's was.
            largest = float(torch.linalg.matrix_norm(moved / MUON_FACTOR / 1e-3, ord=2))
            assert largest == pytest.approx(1.0, abs=0.35), name
        else:
            assert float(moved.abs().max()) < 1.1e-3, name  # AdamW's first step is at most its learning rate


def test_a_non_finite_loss_raises() -> None:
    model = make_model()
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    with pytest.raises(DivergenceError, match="learning rate"):
        BehaviorCloner(model, learning_rate=1e-3, steps=1).step(make_turns(3, seed=5))


@pytest.mark.parametrize("steps", [1, 7, 400])
def test_the_learning_rate_rises_once_and_falls_to_its_final_share(steps: int) -> None:
    factors = [schedule(step, steps) for step in range(steps)]
    top = int(np.argmax(factors))
    assert max(factors) == pytest.approx(1.0)
    assert all(0 < factor <= 1 for factor in factors)
    assert factors[:top] == sorted(factors[:top])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    assert schedule(steps, steps) == pytest.approx(FINAL_SHARE, abs=1e-9) or steps == 1
