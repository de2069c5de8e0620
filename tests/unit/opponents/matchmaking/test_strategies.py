"""Matchmaking strategies: their weights, the floor under these, and the seats of self-play and specialists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from opponents.matchmaking.matchmaker import Matchmaker
from opponents.matchmaking.strategies import (
    OpponentStats,
    draw_index,
    hard,
    make_strategy,
    rating_window,
    variance,
    with_floor,
)
from opponents.population.member import PopulationError
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from tests.unit.opponents.league_cases import member, population_of, snapshot
from tests.unit.opponents.world_cases import Cards, diplomacy

FOLDER = Path("unused")  # nothing is saved
COUNT = st.integers(1, 12)
WEIGHTS = COUNT.flatmap(lambda n: arrays(np.float64, n, elements=st.floats(0, 1)))
FAIR = {"random": 1.0, "greedy": 1.0, "dumbbot": 1.0}
MEMBERS = (member("random"), member("greedy", weight=3.0), member("dumbbot"), snapshot(2), snapshot(4))
NO_RESULTS = OpponentStats(
    score=lambda *_: 0.5, rating=lambda _: 1000.0, curriculum=lambda power, members: members[0].id
)


def weights(strategy, members=MEMBERS, stats=NO_RESULTS, power="FRANCE", **keys):
    settings = OpponentsSettings(members=FAIR, matchmaking=strategy, **keys)
    found = make_strategy(settings, stats)(members, power)
    return dict(zip((each.id for each in members), (found / found.sum()).round(6).tolist(), strict=True))


@pytest.mark.parametrize(
    ("index", "power", "opponents"),
    [
        (0, "ENGLAND", "DRDRDD"),
        (1, "AUSTRIA", "RDRDDD"),
        (2, "ITALY", "DRDDDD"),
        (123, "ITALY", "DDRDDR"),
        (7_000_000, "AUSTRIA", "DRDDDR"),
        (7_070_005, "RUSSIA", "DDRDDD"),
    ],
)
def test_draws_by_weight_are_unchanged_from_earlier_versions(tmp_path, index, power, opponents):
    population = population_of(tmp_path, member("random"), member("dumbbot", weight=3.0), member("hold", weight=0.0))
    block = Matchmaker(population, diplomacy(), num_generations=8, seed=5).block(index)
    assert block.role == power
    assert [who for _, who in block.opponents] == [{"D": "bot/dumbbot", "R": "bot/random"}[each] for each in opponents]


@given(WEIGHTS, st.floats(0, 0.99))
@examples(max_examples=30)
def test_probabilities_keep_their_order_and_are_not_below_the_floor(found, floor):
    chances = with_floor(found, floor)
    assert np.isclose(chances.sum(), 1.0)
    assert (chances >= min(floor, 1 / len(found)) - 1e-12).all()
    above = found[:, None] > found[None, :]
    assert (chances[:, None] >= chances[None, :] - 1e-12)[above].all()
    if floor == 0 and found.sum() > 0:
        np.testing.assert_allclose(chances, found / found.sum())


@given(WEIGHTS.filter(lambda found: found.sum() > 0), st.integers(0, 2**63 - 1))
@examples(max_examples=30)
def test_a_draw_never_returns_a_member_without_weight(found, seed):
    assert found[draw_index(found, seed)] > 0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
@examples(max_examples=30)
def test_priorities_follow_the_learners_scores(scores):
    found = np.array(scores)
    assert (np.diff(hard(np.sort(found))) <= 0).all()  # members that beat the learner come first
    balance = np.argsort(np.abs(found - 0.5), kind="stable")
    assert (np.diff(variance(found)[balance]) <= 1e-12).all()  # equals come first
    assert hard(np.array([0.25]))[0] == 0.5625
    assert variance(np.array([0.25]))[0] == 0.1875


@given(COUNT.flatmap(lambda n: arrays(np.float64, n, elements=st.floats(0, 3000))), st.floats(1, 500))
@examples(max_examples=30)
def test_the_rating_window_has_the_near_members_and_at_least_three(ratings, width):
    found = rating_window(ratings, 1500.0, width)
    distances = np.abs(ratings - 1500)
    assert (found[distances <= width] == 1).all()
    assert found.sum() >= min(3, len(ratings))
    assert distances[found == 1].max() <= distances[found == 0].min(initial=np.inf)
    if found.sum() > 3:
        nearest = np.sort(distances)[2]
        assert (distances[found == 1] <= max(width, nearest)).all()


def test_each_strategy_weighs_the_population():
    assert weights("weighted")["bot/greedy"] == round(3 / 7, 6)
    assert set(weights("uniform").values()) == {0.2}
    assert weights("latest") == dict.fromkeys((m.id for m in MEMBERS[:4]), 0.0) | {"policy/v4": 1.0}
    bots, anchors = MEMBERS[:3], {"anchors": ("greedy", "random")}
    assert weights("latest", bots, **anchors) == {"bot/random": 0.25, "bot/greedy": 0.75, "bot/dumbbot": 0.0}
    specialists = (*MEMBERS, snapshot(5, id="policy/v5-ITALY"), snapshot(5, id="policy/v5-TURKEY"))
    newest = {"policy/v5-ITALY": 0.5, "policy/v5-TURKEY": 0.5}
    assert weights("latest", specialists) == dict.fromkeys((m.id for m in MEMBERS), 0.0) | newest
    foreign = (*MEMBERS, snapshot(900, id="policy/theirs", source="another run"))
    assert weights("latest", foreign)["policy/v4"] == 1.0


def test_prioritised_play_rating_window_and_curriculum_use_the_stats():
    scores = {"bot/random": 0.9, "bot/greedy": 0.8, "bot/dumbbot": 0.4, "policy/v2": 0.7, "policy/v4": 0.5}
    ratings = {"bot/random": 1000.0, "bot/greedy": 1490.0, "bot/dumbbot": 1250.0, "policy/v2": 1280, "policy/v4": 1310}
    asked = []

    def score(who, power):
        asked.append(power)
        return scores[who]

    def rating(who):
        return 1320.0 if who == LEARNER else ratings[who]

    known = OpponentStats(score=score, rating=rating, curriculum=lambda *_: "bot/dumbbot")
    raw = {"bot/random": 0.01, "bot/greedy": 3 * 0.04, "bot/dumbbot": 0.36, "policy/v2": 0.09, "policy/v4": 0.25}
    found = weights("pfsp_hard", stats=known, power="ITALY", min_draw_probability=0.0)
    assert found == {who: round(value / sum(raw.values()), 6) for who, value in raw.items()}
    assert set(asked) == {"ITALY"}
    raw = {"bot/random": 0.09, "bot/greedy": 3 * 0.16, "bot/dumbbot": 0.24, "policy/v2": 0.21, "policy/v4": 0.25}
    found = weights("pfsp_variance", stats=known, min_draw_probability=0.0)
    assert found == {who: round(value / sum(raw.values()), 6) for who, value in raw.items()}
    near = weights("rating_window", stats=known, rating_window=50.0, min_draw_probability=0.03)
    third = round(0.03 + 0.85 / 3, 6)
    assert near == dict.fromkeys(scores, 0.03) | dict.fromkeys(("bot/dumbbot", "policy/v2", "policy/v4"), third)
    wide = weights("rating_window", stats=known, rating_window=170.0, min_draw_probability=0.0)
    assert [who for who, share in wide.items() if share == 0] == ["bot/random"]
    by_level = weights("curriculum", stats=known, min_draw_probability=0.05)
    assert by_level == dict.fromkeys(scores, 0.05) | {"bot/dumbbot": 0.8}


@pytest.mark.parametrize("strategy", ["pfsp_hard", "pfsp_variance", "rating_window", "curriculum"])
def test_the_floor_holds_in_the_line_ups_that_are_drawn(tmp_path, strategy):
    settings = OpponentsSettings(members=FAIR, matchmaking=strategy, min_draw_probability=0.1, anchor_share=0.5)
    hopeless = OpponentStats(
        score=lambda who, _: 0.999 if who == "policy/v2" else 0.3,
        rating=lambda who: 9000.0 if who == "policy/v2" else 1000.0,
        curriculum=lambda *_: "bot/dumbbot",
    )
    population = population_of(tmp_path, *MEMBERS)
    matchmaker = Matchmaker(population, diplomacy(), 1, 1, settings, make_strategy(settings, hopeless))
    drawn = [matchmaker.draw(index) for index in range(280)]
    free = [who for each in drawn if each.strategy == strategy for _, who in each.block.opponents]
    anchored = {who for each in drawn if each.strategy == "anchors" for _, who in each.block.opponents}
    assert len(free) == 140 * 6
    spread = (0.1 * 0.9 / len(free)) ** 0.5
    assert abs(Counter(free)["policy/v2"] / len(free) - 0.1) < 5 * spread
    assert anchored == {"bot/random", "bot/greedy", "bot/dumbbot"}


def test_the_same_member_may_fill_all_six_seats(tmp_path):
    settings = OpponentsSettings(lineup="same")
    matchmaker = Matchmaker(population_of(tmp_path, *MEMBERS), diplomacy(), 1, 1, settings)
    fills = [{who for _, who in matchmaker.block(index).opponents} for index in range(140)]
    assert all(len(fill) == 1 for fill in fills)
    assert set.union(*fills) == {each.id for each in MEMBERS}


@pytest.mark.parametrize("seats", [1, 2, 5, 6])
def test_self_play_seats_rotate_over_all_other_seats(tmp_path, seats):
    matchmaker = Matchmaker(
        population_of(tmp_path, *MEMBERS), diplomacy(), 1, 1, OpponentsSettings(self_play_seats=seats)
    )
    count = Counter()
    for index in range(7 * 6):
        block = matchmaker.block(index)
        own = [power for power, who in block.opponents if who == LEARNER]
        assert len(own) == seats
        count.update((block.role, power) for power in own)
        assert block.players[block.role] == LEARNER
        assert list(block.players) == list(POWERS)
    assert set(count.values()) == {seats}
    assert len(count) == 42


def test_a_specialist_plays_only_its_own_country(tmp_path):
    turk = snapshot(7, id="policy/turk", country="TURKEY", weight=5.0)
    population = population_of(tmp_path, member("random"), turk)
    blocks = [Matchmaker(population, diplomacy(), 1, 3).block(index) for index in range(140)]
    where = Counter(power for block in blocks for power, who in block.opponents if who == "policy/turk")
    assert set(where) == {"TURKEY"}
    assert where["TURKEY"] > 80  # of 120, with five sixths of the weight there
    same = Matchmaker(population, diplomacy(), 1, 3, OpponentsSettings(lineup="same"))
    assert {who for index in range(70) for _, who in same.block(index).opponents} == {"bot/random"}
    with pytest.raises(PopulationError, match="no member to play"):
        Matchmaker(population_of(tmp_path / "turks", turk), diplomacy(), 1, 3).block(0)


def test_pinned_snapshots_stay_drawable_and_later_members_wait(tmp_path):
    members = [snapshot(version, pinned=version == 1) for version in range(1, 8)]
    late = member("greedy", created_at_update=6)
    matchmaker = Matchmaker(
        population_of(tmp_path, *members, late), diplomacy(), 1, 3, OpponentsSettings(max_snapshots=2)
    )
    assert [each.id for each in matchmaker.drawable(5)] == ["policy/v1", "policy/v4", "policy/v5"]
    assert [each.id for each in matchmaker.drawable()] == ["bot/greedy", "policy/v1", "policy/v6", "policy/v7"]


@given(st.integers(0, 2**40), st.integers(0, 500), st.sampled_from(["mixed", "same"]), st.integers(0, 6))
@examples(max_examples=25)
def test_a_draw_is_a_function_of_seed_index_and_state(seed, index, lineup, seats):
    keys = {"matchmaking": "pfsp_hard", "lineup": lineup, "self_play_seats": seats, "anchor_share": 0.3}
    settings = OpponentsSettings(members=FAIR, **keys)

    def matchmaker(score):
        stats = OpponentStats(score=lambda *_: score, rating=lambda _: 0.0, curriculum=lambda *_: "")
        strategy = make_strategy(settings, stats)
        return Matchmaker(population_of(FOLDER, *MEMBERS), diplomacy(), 2, seed, settings, strategy)

    drawn = matchmaker(0.4).draw(index)
    assert matchmaker(0.4).draw(index) == drawn
    assert matchmaker(0.4).with_opponents(index, dict(drawn.block.opponents)) == drawn.block
    assert matchmaker(0.4).draw(index + 7).block.seed != drawn.block.seed


@pytest.mark.parametrize(("seats", "own"), [(1, 1), (2, 2), (6, 2)])
def test_self_play_of_three_seats_takes_no_more_than_the_others(tmp_path, seats, own):
    matchmaker = Matchmaker(population_of(tmp_path, *MEMBERS), Cards(), 1, 1, OpponentsSettings(self_play_seats=seats))
    count = Counter()
    for index in range(3 * 2):
        block = matchmaker.block(index)
        learners = [seat for seat, who in block.opponents if who == LEARNER]
        assert len(learners) == own
        count.update((block.role, seat) for seat in learners)
    assert set(count.values()) == {own}
    assert len(count) == 6
