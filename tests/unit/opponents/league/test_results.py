"""The learner's scores: counted by member and country, fading, with a prior, and saved to disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from opponents.league.results import ROLE_GAMES, Results
from opponents.population.member import PopulationError
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from tests.unit.opponents import world_cases
from tests.unit.opponents.world_cases import finished

SEATS = dict(
    zip(POWERS, ("bot/greedy", "bot/greedy", LEARNER, "bot/random", "bot/random", "policy/v2", LEARNER), strict=True)
)  # the learner is France; Turkey is a self-play seat


def score(*centers: int, solo: str | None = None) -> GameScore:
    return world_cases.score(SEATS, dict(zip(POWERS, centers, strict=True)), solo)


def test_pairwise_scores_are_means_over_a_members_seats_and_a_solo_wins() -> None:
    results = Results(half_life=10.0)
    results.record(score(3, 6, 5, 5, 2, 5, 8), "FRANCE")
    points = {who: results.tallies[who]["FRANCE"].points for who in results.games}
    assert points == {"bot/greedy": 0.5, "bot/random": 0.75, "policy/v2": 0.5}
    results.record(score(18, 4, 3, 3, 2, 1, 3, solo="AUSTRIA"), "FRANCE")  # the others get nothing: level
    assert results.tallies["bot/greedy"]["FRANCE"].points == 0.5 + 0.25
    results.record(score(1, 0, 18, 3, 2, 5, 5, solo="FRANCE"), "FRANCE")
    assert results.tallies["bot/greedy"]["FRANCE"].points == 0.75 + 1
    assert results.games == {"bot/greedy": 3, "bot/random": 3, "policy/v2": 3}
    shares = 25 / (9 + 36 + 25 + 25 + 4 + 25 + 64) + 0.0 + 1.0
    assert results.tallies["policy/v2"]["FRANCE"].share == pytest.approx(shares)


def test_scores_without_games_equal_the_prior() -> None:
    results = Results(half_life=10.0)
    assert results.score("bot/nobody") == results.score("bot/nobody", "ITALY") == 0.5
    assert results.games == {}


def test_a_countrys_score_starts_at_the_overall_score() -> None:
    results = Results(half_life=10.0)
    for _ in range(18):
        results.record(score(1, 1, 5, 1, 1, 1, 1), "FRANCE")
    overall = results.score("policy/v2")
    assert overall == 19 / 20
    assert results.score("policy/v2", "ITALY") == overall
    assert results.score("policy/v2", "FRANCE") == pytest.approx((ROLE_GAMES * overall + 18) / (ROLE_GAMES + 18))


@given(st.lists(st.integers(0, 34), min_size=7, max_size=7), st.integers(0, 20), st.sampled_from(POWERS))
@examples(max_examples=30)
def test_scores_stay_between_0_and_1(centers: list[int], updates: int, power: str) -> None:
    results = Results(half_life=3.0)
    for _ in range(5):
        results.record(score(*centers), "FRANCE")
    results.advance(updates)
    for who in results.games:
        assert 0 < results.score(who) < 1
        assert 0 < results.score(who, power) < 1


def test_games_fade_by_half_each_half_life_but_their_count_does_not() -> None:
    results = Results(half_life=4.0)
    results.record(score(1, 1, 5, 1, 1, 1, 1), "FRANCE")
    results.advance(4)
    tally = results.tallies["policy/v2"]["FRANCE"]
    assert (tally.games, tally.weight, tally.points) == (1, 0.5, 0.5)
    results.advance(2)  # a resumed run repeats updates: nothing is discounted twice
    results.advance(4)
    assert tally.weight == 0.5
    results.advance(400)
    assert results.score("policy/v2") == pytest.approx(0.5)
    assert results.games["policy/v2"] == 1


def test_scores_follow_a_learner_that_becomes_stronger() -> None:
    results = Results(half_life=5.0)
    for update in range(1, 60):
        ours = 1 if update <= 30 else 9
        for _ in range(8):
            results.record(score(3, 3, ours, 3, 3, 3, 3), "FRANCE")
        results.advance(update)
        if update == 30:
            assert results.score("bot/random", "FRANCE") < 0.05
    assert results.score("bot/random", "FRANCE") > 0.9


def test_results_round_trip_through_disk_and_damaged_files_are_refused(tmp_path) -> None:
    path = tmp_path / "results.json"
    assert Results.load(path, 4.0).games == {}
    results = Results(half_life=4.0)
    results.record(score(3, 6, 5, 5, 2, 5, 8), "FRANCE")
    results.advance(3)
    results.save(path)
    again = Results.load(path, 4.0)
    assert again.update == 3
    assert again.games == results.games
    assert again.tallies["bot/greedy"] == results.tallies["bot/greedy"]
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    for text, message in (
        (path.read_text().replace('"schema": 1', '"schema": 9'), "has schema 9"),
        (path.read_text()[:-20], "is damaged"),
        (path.read_text().replace('"games"', '"plays"'), "is damaged"),
    ):
        path.write_text(text)
        with pytest.raises(PopulationError, match=message) as caught:
            Results.load(path, 4.0)
        assert "\n" not in str(caught.value)


def test_scores_of_three_seats_follow_their_places() -> None:
    results = Results(half_life=4.0)
    seats = {"C": "bot/fold", "A": LEARNER, "B": "bot/raise"}
    results.record(GameScore(seats, finished(["C", "AB"])), "A")
    assert {who: results.tallies[who]["A"].points for who in results.games} == {"bot/fold": 0.0, "bot/raise": 0.5}
    results.record(GameScore(seats, finished(["A", "B", "C"])), "A")
    assert {who: results.tallies[who]["A"].points for who in results.games} == {"bot/fold": 1.0, "bot/raise": 1.5}
    assert results.tallies["bot/fold"]["A"].share == 1.0
