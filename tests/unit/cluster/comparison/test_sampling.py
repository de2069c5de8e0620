"""Episodes: who earned what at which choice, masks, equal starts, and the count of steps."""

import numpy as np
import pytest
import torch

from cluster.comparison.sampling import EpisodeSampler, Start, carried_out
from grpo_core.small_networks.networks import plain_policy
from services.environments.tensor_task import Actions
from tests.unit.cluster.comparison.small_tasks import FIRST, ROUNDS, SECOND, Turns

STARTS = [Start(f"s{number}", number, f"b{number // 2}", 2) for number in range(4)]


@pytest.fixture
def policy():
    torch.manual_seed(0)
    return plain_policy(2, 3, are_numbered=True, hidden=(4,))


def test_what_a_seat_earns_between_its_choices_belongs_to_the_last_of_them(policy):
    played = EpisodeSampler(Turns(), 0).play(policy, STARTS, 7)
    assert played.steps == len(STARTS) * 2 * ROUNDS
    row = 0
    for number, episode in enumerate(played.batch.episodes):
        assert episode.role == (FIRST, SECOND)[number % 2]
        start = STARTS[number // 2]
        assert (episode.block_id, episode.block_size, episode.seed) == (start.block, 2, start.seed)
        assert episode.keys["start"] == start.name
        assert episode.keys["parity"] == start.seed % 2
        assert [turn.keys["phase"] for turn in episode.turns] == list(range(ROUNDS))
        chosen = played.batch.actions[row : row + ROUNDS].tolist()
        rewards = [turn.reward for turn in episode.turns]
        if episode.role == FIRST:
            assert rewards == chosen
            first = chosen
        else:
            # FIRST's first choice came before any of SECOND's, so nothing that SECOND did has brought it.
            assert rewards == [10.0 * first[1], 10.0 * first[2], 0.0]
        assert episode.reward == sum(rewards)
        assert {turn.policy_version for turn in episode.turns} == {7}
        row += ROUNDS
    assert played.figures == tuple({"seed": float(start.seed)} for start in STARTS)


def test_rows_are_what_was_seen_and_what_was_legal(policy):
    batch = EpisodeSampler(Turns(), 0).play(policy, STARTS, 0).batch
    seen = batch.observations_ND.numpy()
    expected = []
    for start in STARTS:
        expected += [[2 * turn, start.seed] for turn in range(ROUNDS)]
        expected += [[101 + 2 * turn, 100 + start.seed] for turn in range(ROUNDS)]
    assert np.array_equal(seen, np.array(expected, np.float32))


def test_what_is_not_legal_is_never_chosen_and_has_no_probability(policy):
    sampler = EpisodeSampler(Turns(), 0)
    for version in range(20):
        played = sampler.play(policy, STARTS, version)
        for number, episode in enumerate(played.batch.episodes):
            chosen = played.batch.actions[number * ROUNDS : (number + 1) * ROUNDS]
            assert int(chosen.max()) < (3 if episode.role == FIRST else 2)


def test_seats_may_be_one_role(policy):
    played = EpisodeSampler(Turns(), 0, mixes_seats=True).play(policy, STARTS, 0)
    assert {episode.role for episode in played.batch.episodes} == {"ANY"}
    assert len({episode.episode_id for episode in played.batch.episodes}) == 2 * len(STARTS)


def test_equal_seeds_choose_alike(policy):
    first, second, other = (
        EpisodeSampler(Turns(), seed).play(policy, STARTS, 0).batch.actions.tolist() for seed in (3, 3, 4)
    )
    assert first == second != other


def test_vectors_are_cut_by_the_bounds():
    kind = Actions(2, (-1.0, 0.0), (1.0, 0.5))
    (found,) = carried_out(torch.tensor([[-3.0, 2.0]]), kind)
    assert found.tolist() == [-1.0, 0.5]
