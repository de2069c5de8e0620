import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.settings import LearnerSettings

turns = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), min_size=1, max_size=30)


@given(turns)
def test_turn_token_weights_follow_the_named_normaliser(case):
    counts, owners = [count for count, _ in case], [owner for _, owner in case]
    trained = [index for index, count in enumerate(counts) if count]
    for normalizer in ("token", "turn", "episode"):
        weights = turn_token_weights(normalizer, counts, owners)
        share = weights * counts  # of the whole loss, turn by turn
        assert share.sum() == pytest.approx(1.0 if trained else 0.0)
        assert not share[[index for index, count in enumerate(counts) if not count]].any()
        if normalizer == "token":
            assert len(set(weights[trained])) <= 1
        elif normalizer == "turn":
            assert share[trained] == pytest.approx(np.full(len(trained), 1 / max(len(trained), 1)))
        else:
            present = {owners[index] for index in trained}
            for owner in present:
                own = [index for index in trained if owners[index] == owner]
                assert share[own].sum() == pytest.approx(1 / len(present))
                assert len(set(weights[own].tolist())) == 1


@given(turns)
def test_constant_normalisers_weigh_every_token_alike_whatever_the_lengths(case):
    counts, owners = [count for count, _ in case], [owner for _, owner in case]
    present = sum(count > 0 for count in counts)
    for options, expected in (
        ({"normalizer": "batch_token", "batch_tokens_per_step": 50.0}, 1 / 50),
        ({"normalizer": "max_completion_length", "max_completion_length": 40}, 1 / (40 * max(present, 1))),
    ):
        weights = turn_token_weights(trained_tokens=counts, episodes=owners, **options)
        assert weights.tolist() == pytest.approx([expected if count else 0.0 for count in counts])


def test_long_episodes_weigh_more_only_under_token_and_turn_normalisers():
    counts, owners = [10, 10, 10, 2], [0, 0, 0, 1]
    shares = {
        name: (turn_token_weights(name, counts, owners) * counts)[:3].sum() for name in ("token", "turn", "episode")
    }
    assert shares == pytest.approx({"token": 30 / 32, "turn": 3 / 4, "episode": 1 / 2})


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_another_episodes_length_changes_a_turns_weight_only_under_token(own, short, long):
    """Of a turn of ``own`` tokens beside another episode's turn that gets longer."""
    options = {"max_completion_length": 32, "batch_tokens_per_step": 20.0}
    for name in ("token", "batch_token", "turn", "episode", "max_completion_length"):
        one, other = (turn_token_weights(name, [own, length], [0, 1], **options)[0] * own for length in (short, long))
        assert (one == other) or (name == "token" and short != long)


def test_the_loss_type_sets_the_normaliser_unless_the_config_names_one():
    named = {
        name: LearnerSettings(loss_type=name, epsilon_high=1.0, max_completion_length=8).named_normalizer
        for name in ("grpo", "rloo", "bnpo", "dapo", "cispo", "dr_grpo")
    }
    assert named == {
        "grpo": "turn",
        "rloo": "turn",
        "bnpo": "token",
        "dapo": "batch_token",
        "cispo": "batch_token",
        "dr_grpo": "max_completion_length",
    }
    assert LearnerSettings().named_normalizer == "turn"
    assert LearnerSettings(loss_type="dr_grpo", normalizer="episode").named_normalizer == "episode"
