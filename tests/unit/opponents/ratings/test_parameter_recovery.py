"""Ratings recover the strengths of simulated players with calibrated intervals, whatever countries they played."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from opponents.ratings.belief import Prior
from opponents.ratings.book import POINTS, RatingBook
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.position import POWERS
from services.environments.environment import RatingScale
from tests.benchmarks.ratings.predictions import SHARE_SLOPE, expected_share, win_probability
from tests.unit.opponents.world_cases import score

PRIOR = Prior(mu=1000.0, sigma=250.0, deviation_sigma=60.0, role_sigma=120.0)
PLAYERS = tuple(f"p{number}" for number in range(9))
FLAT = dict.fromkeys(POWERS, 0.0)


class Field:
    """Players with true strengths that play by Plackett and Luce's rule; ``bot/anchor`` is known."""

    def __init__(self, seed: int, countries: np.ndarray | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.countries = self.random.normal(0, PRIOR.role_sigma, 7) if countries is None else countries
        self.strength = dict(zip(PLAYERS, self.random.normal(PRIOR.mu, PRIOR.sigma, len(PLAYERS)), strict=True))
        self.deviation = {player: self.random.normal(0, PRIOR.deviation_sigma, 7) for player in PLAYERS}
        self.strength["bot/anchor"], self.deviation["bot/anchor"] = 1100.0, self.random.normal(0, 40, 7)

    def book(self) -> RatingBook:
        anchor = dict(zip(POWERS, self.worth("bot/anchor"), strict=True))
        return RatingBook(POWERS, RatingScale(FLAT, {"bot/anchor": anchor}, {}), PRIOR)

    def worth(self, player: str) -> np.ndarray:
        return self.strength[player] + self.deviation[player]

    def play(self, players: list[str]) -> GameScore:
        """Gumbel noise on the strengths gives the rule's orders."""
        strengths = np.array([self.worth(player)[seat] for seat, player in enumerate(players)]) + self.countries
        places = np.argsort(np.argsort(strengths / POINTS + self.random.gumbel(size=7)))
        return score(dict(zip(POWERS, players, strict=True)), dict(zip(POWERS, places.tolist(), strict=True)))

    def random_players(self) -> list[str]:
        return self.random.choice([*PLAYERS, *["bot/anchor"] * 4], 7).tolist()


def rank_correlation(one: list[float], other: list[float]) -> float:
    return float(np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1])


def after(world: Field, games: int, seats: Callable[[], list[str]]) -> RatingBook:
    book = world.book()
    for _ in range(games):
        book.record(world.play(seats()))
    return book


def test_the_95_percent_intervals_cover_the_true_values_as_often():
    overall, by_country, countries, correlations = [], [], [], []
    for seed in range(6):
        world = Field(seed)
        book = after(world, 100, world.random_players)
        for player in PLAYERS:
            low, high = book.rating(player).interval
            overall.append(low < world.worth(player).mean() < high)
            for power, worth in zip(POWERS, world.worth(player), strict=True):
                low, high = book.rating(player, power).interval
                by_country.append(low < worth < high)
        for power, worth in zip(POWERS, world.countries - world.countries.mean(), strict=True):
            low, high = book.worth(power).interval
            countries.append(low < worth < high)
        found = [book.rating(player).mu for player in PLAYERS]
        correlations.append(rank_correlation(found, [world.worth(player).mean() for player in PLAYERS]))
    # 54, 378 and 42 intervals; over ten times as many they hold 95, 94 and 94 % of the true values.
    assert 0.88 <= np.mean(overall) <= 0.99
    assert 0.92 <= np.mean(by_country) <= 0.98
    assert 0.88 <= np.mean(countries) <= 1.0
    assert np.mean(correlations) > 0.93


def test_ratings_are_unbiased_by_unfair_countries():
    """Strong players mostly get Germany and Austria, weak ones Turkey and France."""
    countries = np.array([-300.0, 0, 300, -400, 0, 0, 400])
    strong, weak = PLAYERS[:3], PLAYERS[3:6]
    world = Field(5, countries)
    for player in PLAYERS:
        world.deviation[player] = np.zeros(7)
        world.strength[player] = 1150.0 if player in strong else 950.0

    def unfair() -> list[str]:
        hard, easy = (strong, weak) if world.random.random() < 0.85 else (weak, strong)
        groups = [easy if worth > 0 else hard if worth < 0 else PLAYERS[:6] for worth in countries]
        return [str(world.random.choice(group)) for group in groups]

    scores = [world.play(unfair()) for _ in range(300)]
    informed = RatingBook(POWERS, RatingScale(FLAT, {}, {}), Prior(role_sigma=300.0))
    blind = RatingBook(POWERS, RatingScale(FLAT, {}, {}), Prior(role_sigma=1e-3, deviation_sigma=1e-3))
    for each in scores:
        informed.record(each)
        blind.record(each)
    lead = {
        book: np.mean([book.rating(p).mu for p in strong]) - np.mean([book.rating(p).mu for p in weak])
        for book in (informed, blind)
    }
    assert lead[blind] < -50  # without the correction the order is upside down
    assert lead[informed] == pytest.approx(200, abs=80)
    assert min(informed.rating(p).mu for p in strong) > max(informed.rating(p).mu for p in weak)
    assert informed.worth("TURKEY").mu - informed.worth("GERMANY").mu == pytest.approx(800, abs=150)


def test_a_players_strong_country_shows_in_its_rating_by_country():
    world = Field(1)
    world.deviation["p0"] = 300.0 * np.eye(7)[POWERS.index("ITALY")]

    def seats() -> list[str]:
        players = world.random.choice([*PLAYERS[1:], "bot/anchor"], 7).tolist()
        where = world.random.choice(["ENGLAND", "ITALY", "RUSSIA"], p=[0.48, 0.48, 0.04])
        players[POWERS.index(where)] = "p0"
        return players

    book = after(world, 250, seats)
    england, italy, russia, turkey = (book.rating("p0", power) for power in ("ENGLAND", "ITALY", "RUSSIA", "TURKEY"))
    assert italy.mu - england.mu > 60
    assert italy.games + england.games + russia.games == 250
    # Where it hardly played, it is thought to be as strong as elsewhere, and less is sure.
    assert england.mu < russia.mu < italy.mu
    assert turkey.mu == pytest.approx((england.mu + italy.mu) / 2, abs=20)
    assert turkey.sigma > russia.sigma > max(italy.sigma, england.sigma)


def test_predictions_equal_their_mean_over_the_uncertainty():
    """Against the mean of the same quantity over draws of the strengths."""
    world = Field(2)
    book = after(world, 10, world.random_players)
    seats = dict(zip(POWERS, ["p0", "p1", "p2", "p2", "bot/anchor", "p3", "unknown"], strict=True))
    book.add("unknown")
    mean, _, covariance = book.strengths(seats)
    drawn = world.random.multivariate_normal(mean, covariance, 20_000, method="eigh")
    above = 1 / (1 + np.exp(drawn[:, None, :] - drawn[:, :, None]))
    shares = np.exp(SHARE_SLOPE * drawn)
    shares /= shares.sum(axis=1, keepdims=True)
    assert sum(expected_share(book, power, seats) for power in POWERS) == pytest.approx(1)
    for number, power in enumerate(POWERS):
        assert expected_share(book, power, seats) == pytest.approx(shares[:, number].mean(), abs=0.02)
        for rival in POWERS[:number]:
            expected = above[:, number, POWERS.index(rival)].mean()
            assert win_probability(book, power, rival, seats) == pytest.approx(expected, abs=0.01)
