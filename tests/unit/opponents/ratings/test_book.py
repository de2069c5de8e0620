"""The rating book: fixed anchors, invariances, uncertainty, and its file."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from grpo_core.errors import StorageError
from opponents.population.member import PopulationError
from opponents.ratings.belief import Prior
from opponents.ratings.book import RatingBook, RatingsError
from opponents.ratings.game_score import GameScore
from opponents.ratings.storage import load_ratings, save_ratings, saved_ratings
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring.calibration import ANCHORS, COUNTRY_POINTS
from services.environments.playing import Standing
from tests.benchmarks.ratings.predictions import SHARE_SLOPE
from tests.paths import ROOT
from tests.unit.opponents.world_cases import Cards, Chess, diplomacy_book, finished, score

NAMES = ("learner", "policy/v10", "policy/v20", "bot/dumbbot", "bot/random")
CALIBRATION = ROOT / "tests/benchmarks/ratings/calibration.json"


def some_games(count: int, seed: int = 0, names: tuple[str, ...] = NAMES) -> list[GameScore]:
    random = np.random.default_rng(seed)
    scores = []
    for _ in range(count):
        seats = dict(zip(POWERS, random.choice(names, 7).tolist(), strict=True))
        centers = random.multinomial(34, random.dirichlet(np.ones(7) * 0.7)).tolist()
        solo = POWERS[int(np.argmax(centers))] if max(centers) >= 18 else None
        scores.append(score(seats, dict(zip(POWERS, centers, strict=True)), solo))
    return scores


def after(scores: list[GameScore], book: RatingBook | None = None) -> RatingBook:
    book = book or diplomacy_book()
    for each in scores:
        book.record(each)
    return book


def everything(book: RatingBook) -> list[object]:
    rated = [book.rating(player, country) for player in NAMES for country in (None, *POWERS)]
    return [*rated, *map(book.worth, POWERS)]


def test_anchor_ratings_never_change():
    book = diplomacy_book()
    before = {(name, power): book.rating(name, power) for name in ANCHORS for power in (None, *POWERS)}
    after(some_games(40), book)
    book.drift("learner", 3)
    for (name, power), rating in before.items():
        now = book.rating(name, power)
        assert (now.mu, now.sigma) == (rating.mu, 0.0)
    assert book.rating("bot/dumbbot").games > 0


def test_games_among_anchors_only_change_the_countries():
    book = after(some_games(30, names=("bot/random", "bot/dumbbot")))
    assert book.players == ()
    assert book.worth("TURKEY").sigma < diplomacy_book().worth("TURKEY").sigma


def test_the_order_in_which_seats_are_listed_does_not_matter():
    scores = some_games(25)
    backwards = [
        GameScore(
            dict(reversed(each.seats.items())),
            Standing(
                dict(reversed(each.standing.shares.items())),
                tuple(place[::-1] for place in each.places),
                each.last_is_open,
            ),
        )
        for each in scores
    ]
    assert everything(after(scores)) == everything(after(backwards))


def test_player_names_do_not_matter():
    new_names = {"learner": "zz", "policy/v10": "learner", "policy/v20": "0"}
    scores = some_games(25)
    renamed = [GameScore({p: new_names.get(n, n) for p, n in each.seats.items()}, each.standing) for each in scores]
    one, other = after(scores), after(renamed)
    for old, new in new_names.items():
        assert [one.rating(old, c) for c in (None, *POWERS)] == [other.rating(new, c) for c in (None, *POWERS)]


def test_every_game_reduces_uncertainty():
    book = diplomacy_book()
    after(some_games(1), book)
    for each in some_games(20, seed=1):
        before = {player: book.rating(player).sigma for player in book.players}
        book.record(each)
        for player, sigma in before.items():
            assert book.rating(player).sigma <= sigma * (1 + 1e-12)
    assert book.rating("learner").sigma < 0.4 * diplomacy_book().rating("learner").sigma


def test_games_of_a_player_against_itself_do_not_change_its_strength():
    book = diplomacy_book()
    before, country = book.rating("learner"), book.worth("TURKEY").sigma
    after(some_games(10, names=("learner",)), book)
    now = book.rating("learner")
    assert (now.mu, now.sigma) == (pytest.approx(before.mu, abs=1e-9), pytest.approx(before.sigma, abs=1e-9))
    assert (now.games, book.rating("learner", "ITALY").games) == (10, 10)
    assert book.worth("TURKEY").sigma < country


def test_an_unknown_player_has_the_prior():
    book = after(some_games(5))
    unknown = book.rating("policy/v99")
    assert (unknown.mu, unknown.games) == (1000.0, 0)
    assert unknown.sigma == pytest.approx((350**2 + 50**2 / 7) ** 0.5)
    assert book.rating("policy/v99", "ITALY").sigma == pytest.approx((350**2 + 50**2) ** 0.5)
    assert "policy/v99" not in book.players


def test_a_frozen_copy_is_updated_with_the_learner_until_it_drifts():
    book = after(some_games(15, names=("learner", "bot/random")))
    book.add("policy/v30", like="learner")
    assert book.rating("policy/v30").mu == pytest.approx(book.rating("learner").mu)
    assert book.rating("policy/v30").sigma == pytest.approx(book.rating("learner").sigma)
    after(some_games(5, seed=3, names=("learner", "bot/random")), book)
    assert book.rating("policy/v30").mu == pytest.approx(book.rating("learner").mu, abs=1e-6)
    frozen = book.rating("policy/v30")
    book.drift("learner", 20, tau=10.0)
    assert book.rating("policy/v30") == frozen
    assert book.rating("learner").sigma ** 2 > frozen.sigma**2 + 20 * 10.0**2
    assert book.rating("learner").mu == pytest.approx(frozen.mu, abs=20)  # deviations went back towards none
    for bad, like in (("policy/v30", None), ("bot/random", None), ("policy/v40", "bot/random"), ("policy/v40", "x")):
        with pytest.raises(RatingsError):
            book.add(bad, like)


def test_removing_a_player_leaves_the_others_unchanged():
    book = after(some_games(20))
    kept = {player: book.rating(player) for player in ("learner", "policy/v20")}
    book.remove(["policy/v10", "nobody"])
    assert book.players == tuple(player for player in book.players if player != "policy/v10")
    assert {player: book.rating(player) for player in kept} == kept
    assert book.rating("policy/v10").games == 0
    after(some_games(3), book)
    assert book.rating("policy/v10").games > 0


def test_the_shipped_constants_are_the_measured_ones():
    measured = json.loads(CALIBRATION.read_text())
    assert {player: dict(points) for player, points in ANCHORS.items()} == measured["anchors"]
    assert measured["countries"] == COUNTRY_POINTS
    assert measured["share_slope"] == SHARE_SLOPE
    assert diplomacy_book().rating("bot/random").mu == pytest.approx(1000, abs=0.1)


def test_the_file_round_trips_bit_for_bit(tmp_path):
    path = tmp_path / "run" / "ratings.json"
    book = after(some_games(12), diplomacy_book(Prior(sigma=300.0)))
    save_ratings(book, path)
    again = load_ratings(path, POWERS)
    assert everything(again) == everything(book)
    more = some_games(6, seed=9)
    assert everything(after(more, again)) == everything(after(more, book))
    save_ratings(diplomacy_book(), path)
    assert load_ratings(path, POWERS).players == ()
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "ratings.json"
    path.mkdir()
    with pytest.raises(StorageError, match="a folder has its name"):
        save_ratings(diplomacy_book(), path)
    assert list(tmp_path.iterdir()) == [path]


def packed(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "has ratings schema 2; this version reads 1"),
        ({"extra": 1}, "unknown field"),
        ({"countries": [0.0] * 6}, "7 numbers"),
        ({"counts": [{"id": "learner", "games": 3, "seats": [1]}]}, "7 numbers"),
        ({"players": []}, "its covariance is"),
        ({"covariance": "!"}, "damaged"),
        ({"covariance": packed(np.full(15 * 16 // 2, np.nan))}, "not finite"),
        ({"covariance": packed(-np.ones(15 * 16 // 2))}, "negative variance"),
        ({"anchors": [{"id": "learner", "points": [1.0] * 7}]}, "twice"),
    ],
)
def test_damaged_files_are_refused_with_a_message_of_one_line(tmp_path, change, message):
    path = tmp_path / "ratings.json"
    save_ratings(after(some_games(4, names=("learner", "bot/random"))), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RatingsError, match=message) as caught:
        load_ratings(path, POWERS)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_other_files_are_refused(tmp_path):
    with pytest.raises(PopulationError, match=r"cannot read the ratings .*: No such file"):
        load_ratings(tmp_path / "ratings.json", POWERS)
    (tmp_path / "ratings.json").write_text("{")
    with pytest.raises(PopulationError, match="not a ratings file"):
        load_ratings(tmp_path / "ratings.json", POWERS)


def test_any_world_rates_its_players_by_its_own_roles(tmp_path):
    world = Cards()
    book = RatingBook(world.roles, world.rating_scale)
    assert book.rating("bot/raise").mu == 1000.0  # no bot's strength is known
    for winner in ("A", "B", "C", "A", "B", "C"):
        seats = {seat: "learner" if seat == winner else "bot/fold" for seat in world.roles}
        book.record(GameScore(seats, finished([winner, *(seat for seat in "ABC" if seat != winner)])))
    assert set(book.players) == {"learner", "bot/fold"}
    assert book.rating("learner").mu > 1000 > book.rating("bot/fold").mu
    assert book.rating("learner", "B").games == 2
    assert [book.worth(seat).games for seat in world.roles] == [6] * 3
    assert sum(book.worth(seat).mu for seat in world.roles) == pytest.approx(0, abs=1e-9)
    save_ratings(book, tmp_path / "ratings.json")
    again = saved_ratings(tmp_path, world.roles, world.rating_scale)
    assert [again.rating("learner", seat) for seat in (None, *world.roles)] == [
        book.rating("learner", seat) for seat in (None, *world.roles)
    ]
    with pytest.raises(ValueError, match="ratings of C, A, B take no game of white, black"):
        book.record(GameScore({"white": "x", "black": "y"}, finished([["white"], ["black"]])))


def test_two_seats_have_the_scale_of_their_world():
    world = Chess()
    book = RatingBook(world.roles, world.rating_scale)
    assert (book.rating("bot/raise").mu, book.rating("bot/raise", "black").mu) == (1190.0, 1180.0)
    assert (book.worth("white").mu, book.worth("black").mu) == (20.0, -20.0)
    for _ in range(30):
        book.record(GameScore({"white": "learner", "black": "bot/raise"}, finished([["white", "black"]])))
    rating = book.rating("learner", "white")
    assert rating.mu + 20 == pytest.approx(1180 - 20, abs=25)  # level: both seats are as strong
    assert 0 < rating.sigma < 100


def test_ratings_of_other_roles_are_refused_in_one_line(tmp_path):
    path = tmp_path / "ratings.json"
    save_ratings(RatingBook(Cards().roles, Cards().rating_scale), path)
    for roles, message in (("ABC", "its roles are C, A, B, not A, B, C"), (Chess().roles, "not white, black")):
        with pytest.raises(RatingsError, match=message) as caught:
            load_ratings(path, roles)
        assert "\n" not in str(caught.value)
    document = json.loads(path.read_text())
    del document["roles"]  # not every file says them
    path.write_text(json.dumps(document))
    assert load_ratings(path, Cards().roles).roles == Cards().roles
    with pytest.raises(RatingsError, match="2 numbers where there is one for each role"):
        load_ratings(path, Chess().roles)
