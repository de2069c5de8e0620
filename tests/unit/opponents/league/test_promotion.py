"""Promotion: rarely by noise, surely after a gain, and never by a point estimate alone."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from opponents.league.promotion import NEWCOMER, Lead, Rival, deserves_promotion, lead_of, rival_among
from opponents.ratings.book import POINTS, RatingBook
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from tests.unit.opponents.league_cases import member, snapshot
from tests.unit.opponents.world_cases import Cards, Chess, diplomacy_book, score

ON = OpponentsSettings(promote_margin=1e-6)  # the rate that promote_sigmas states is that of a margin of nothing
RIVAL = "policy/v1"


def against(player: str) -> Rival:
    return Rival(player, dict.fromkeys(POWERS, player))


def rated(*players: str) -> RatingBook:
    book = diplomacy_book()
    for player in players:
        book.add(player)
    return book


class Run:
    """A learner that meets its snapshot and the random bot in games decided by Plackett and Luce's rule."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.book = diplomacy_book()
        self.strengths = {LEARNER: 1100.0, "bot/random": 1000.0}
        self.update(40)
        self.book.add(RIVAL, like=LEARNER)
        self.strengths[RIVAL] = 1100.0

    def update(self, games: int) -> None:
        self.book.drift(LEARNER)
        others = [player for player in self.strengths if player != LEARNER]
        for _ in range(games):
            players = [LEARNER, *self.random.choice(others, 6)]
            self.random.shuffle(players)
            draws = [self.strengths[player] / POINTS for player in players] + self.random.gumbel(size=7)
            centers = dict(zip(POWERS, np.argsort(np.argsort(draws)).tolist(), strict=True))
            self.book.record(score(dict(zip(POWERS, players, strict=True)), centers))

    def promoted(self) -> bool:
        return deserves_promotion(lead_of(self.book, LEARNER, against(RIVAL)), 5, ON)


def test_equals_are_promoted_no_more_often_than_stated() -> None:
    # Over 30 runs of six updates none of 180 looks promoted; 2.3 % are stated.
    for seed in range(4):
        run = Run(seed)
        for _ in range(4):
            run.update(10)
            assert not run.promoted()


def test_estimates_of_equals_are_promoted_no_more_often_than_stated() -> None:
    random = np.random.default_rng(0)
    rate, looks = 1 - NormalDist().cdf(ON.promote_sigmas), 20_000
    for own, other in ((20.0, 0.0), (20.0, 20.0), (5.0, 60.0)):
        wrong = 0
        for one, two in random.normal(1000.0, (own, other), (looks, 2)):
            lead = Lead(one, max(own, float(np.hypot(own, other))), RIVAL, two)
            wrong += deserves_promotion(lead, 5, ON)
        assert wrong / looks <= rate + 4 * (rate / looks) ** 0.5


def test_a_learner_that_became_stronger_is_promoted() -> None:
    run = Run(0)
    first = None
    for update in range(1, 21):
        run.strengths[LEARNER] += 20  # by update 10, which 4 other runs took too, it is 200 points ahead
        run.update(14)
        if run.promoted():
            first = update
            break
    assert first is not None
    assert first > 3, "not before the games can tell"


@pytest.mark.parametrize(
    ("rating", "sigma", "updates", "keys", "joins"),
    [
        (1100, 20, 5, {"promote_margin": 20}, True),
        (1100, 40, 5, {"promote_margin": 20}, False),  # the estimate alone would
        (1100, 20, 4, {"promote_margin": 20}, False),  # too soon
        (1100, 20, 5, {"promote_margin": 60}, False),  # 1060 is not above 1000 + 60
        (1100, 20, 5, {"promote_margin": 20, "promote_sigmas": 4.0}, False),
        (1100, 20, 2, {"promote_margin": 20, "promote_min_updates": 2}, True),
        (9999, 1, 999, {}, False),  # off by default
    ],
)
def test_promotion_needs_all_conditions(rating, sigma, updates, keys, joins) -> None:
    lead = Lead(rating, sigma, RIVAL, 1000.0)
    assert deserves_promotion(lead, updates, OpponentsSettings(**keys)) is joins


def test_an_uncertain_rival_makes_the_bound_uncertain_and_a_fresh_copy_does_not() -> None:
    book = diplomacy_book()
    book.drift(LEARNER)
    seats = dict(zip(POWERS, [LEARNER, *["bot/random"] * 6], strict=True))
    for _ in range(20):
        book.record(score(seats, dict(zip(POWERS, (9, 1, 2, 3, 4, 5, 6), strict=True))))
    own = book.rating(LEARNER).sigma
    book.add("policy/v2", like=LEARNER)
    assert lead_of(book, LEARNER, against("policy/v2")).sigma == own
    assert lead_of(book, LEARNER, against("bot/random")).sigma == pytest.approx(own)
    book.add("policy/v3")  # as unknown as can be, and independent
    lead = lead_of(book, LEARNER, against("policy/v3"))
    assert lead.sigma == pytest.approx(np.hypot(own, book.rating("policy/v3").sigma), rel=1e-6)
    assert lead.rival_rating == pytest.approx(book.rating("policy/v3").mu)


def test_promotion_compares_with_the_newest_rated_snapshot_of_the_run() -> None:
    mine = [snapshot(2), snapshot(9, retired=True), snapshot(12)]
    others = [member("random"), snapshot(30, id="policy/else", source="/runs/else")]
    assert rival_among([*mine, *others], rated("policy/v2", "policy/v9", "policy/else")).name == "policy/v9"
    assert rival_among(others, rated("policy/else")).players == dict.fromkeys(POWERS, "bot/random")


def test_before_a_snapshot_the_rival_is_the_weakest_anchor_or_an_unknown_player() -> None:
    chess, cards = (RatingBook(world.roles, world.rating_scale) for world in (Chess(), Cards()))
    assert rival_among([], chess) == Rival("bot/fold", {"white": "bot/fold", "black": "bot/fold"})
    rival = rival_among([member("fold")], cards)
    assert rival == Rival(NEWCOMER, dict.fromkeys("CAB", NEWCOMER))
    cards.drift(LEARNER)
    lead = lead_of(cards, LEARNER, rival)
    assert (lead.rating, lead.rival_rating) == (1000.0, 1000.0)
    assert lead.sigma == cards.rating(LEARNER).sigma


def test_specialists_are_one_rival_once_all_seven_are_rated() -> None:
    seven = [member(f"v4-{power}", "policy", version=4, country=power) for power in POWERS]
    ids = {each.id for each in seven}
    rival = rival_among([snapshot(2), *seven], rated(*ids, "policy/v2"))
    assert rival.name == "policy/v4"
    assert rival.players == {power: f"policy/v4-{power}" for power in POWERS}
    assert rival_among([snapshot(2), *seven], rated(*(ids - {"policy/v4-ITALY"}), "policy/v2")).name == "policy/v2"
    book = diplomacy_book()
    for each in ids:
        book.add(each)
    book.drift(LEARNER)
    # Seven independent estimates of strength, each a seventh of the mean.
    rivals = [book.rating(player, power).sigma for power, player in rival.players.items()]
    expected = np.hypot(book.rating(LEARNER).sigma, np.linalg.norm(rivals) / 7)
    assert lead_of(book, LEARNER, rival).sigma == pytest.approx(expected)
