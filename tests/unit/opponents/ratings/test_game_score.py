"""The result of a game for ratings: places, shares, and places whose order is unknown."""

from __future__ import annotations

import pytest

from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.game import Outcome
from services.environments.diplomacy.position import POWERS

SEATS = dict.fromkeys(POWERS, "bot/random")


def game(*centers: int, **others: object) -> GameScore:
    return GameScore(SEATS, dict(zip(POWERS, centers, strict=True)), **others)


def test_places_follow_centres_then_later_elimination():
    score = game(8, 5, 12, 5, 0, 4, 0, eliminated={"ITALY": 1903, "TURKEY": 1905})
    assert score.places() == (("FRANCE",), ("AUSTRIA",), ("ENGLAND", "GERMANY"), ("RUSSIA",), ("TURKEY",), ("ITALY",))
    assert not score.last_is_open
    assert score.score("FRANCE") == pytest.approx(144 / (64 + 25 + 144 + 25 + 16))
    assert sum(map(score.score, POWERS)) == pytest.approx(1)


def test_without_dates_the_order_of_eliminated_powers_is_unknown():
    score = game(8, 5, 12, 5, 0, 4, 0)
    assert score.places()[-1] == ("ITALY", "TURKEY")
    assert score.last_is_open
    assert not game(8, 5, 12, 5, 2, 1, 1).last_is_open  # a tie of survivors is one


def test_after_a_solo_all_others_share_the_second_place():
    score = game(18, 9, 4, 3, 0, 0, 0, solo="AUSTRIA", eliminated={"ITALY": 1, "RUSSIA": 2, "TURKEY": 3})
    assert score.places() == (("AUSTRIA",), POWERS[1:])
    assert score.last_is_open
    assert [score.score(power) for power in POWERS] == [1, 0, 0, 0, 0, 0, 0]


def test_an_outcome_becomes_a_score():
    centers = dict(zip(POWERS, (20, 14, 0, 0, 0, 0, 0), strict=True))
    solo = GameScore.of(SEATS, Outcome(centers, "solo", ("AUSTRIA",), 1907, 30))
    assert (solo.solo, solo.centers["ENGLAND"]) == ("AUSTRIA", 14)
    drawn = GameScore.of(SEATS, Outcome(centers, "draw", ("AUSTRIA", "ENGLAND"), 1907, 30))
    assert drawn.solo is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seats": {"FRANCE": "bot/random"}}, "seats must name AUSTRIA"),
        ({"centers": {**SEATS, "FRANCE": 1, "SPAIN": 3}}, "centers must name"),
        ({"eliminated": {"FRANCE": 1903}}, "eliminated must say when no power fell"),
        ({"centers": {**dict.fromkeys(POWERS, 3), "ITALY": 0, "TURKEY": 0}, "eliminated": {"ITALY": 1}}, "ITALY, TURK"),
    ],
)
def test_impossible_games_are_refused(change, message):
    whole = {"seats": SEATS, "centers": dict.fromkeys(POWERS, 4)}
    with pytest.raises(ValueError, match=message):
        GameScore(**{**whole, **change})
