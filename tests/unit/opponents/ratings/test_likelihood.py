"""The likelihood equals its definition; one update equals openskill and numerical integrals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from openskill.models import PlackettLuce

from opponents.ratings.belief import Prior
from opponents.ratings.book import POINTS, RatingBook
from opponents.ratings.game_score import GameScore
from opponents.ratings.likelihood import (
    MOST_TIED_EXACTLY,
    Draws,
    draws_of,
    gradient_and_curvature,
    likeliest,
    log_likelihood,
    posterior,
)
from services.environments.diplomacy.position import POWERS
from services.environments.environment import RatingScale
from tests.unit.opponents import world_cases

ALIKE = dict.fromkeys(POWERS, "x")
STRENGTHS = np.array([0.3, -0.8, 1.2, 0.0, 2.1, -1.5, 0.4])


def finished(*centers: int, **others: object) -> GameScore:
    return world_cases.score(ALIKE, dict(zip(POWERS, centers, strict=True)), **others)


def drawn(score: GameScore) -> Draws:
    return draws_of(score, POWERS)


GAMES = {
    "no ties": finished(8, 7, 6, 5, 4, 3, 1),
    "two pairs tie": finished(8, 8, 6, 5, 3, 3, 1),
    "all tie": finished(*[5] * 7),
    "three fell, undated": finished(20, 7, 5, 2, 0, 0, 0),
    "three fell": finished(20, 7, 5, 2, 0, 0, 0, eliminated={"ITALY": 9, "RUSSIA": 7, "TURKEY": 9}),
    "solo": finished(18, 7, 5, 2, 2, 0, 0, solo="AUSTRIA"),
}


def chance_of(order: tuple[int, ...], strengths: np.ndarray) -> float:
    """Luce's choices, one after the other."""
    chance, weights = 1.0, np.exp(strengths)
    for place, seat in enumerate(order):
        chance *= weights[seat] / sum(weights[later] for later in order[place:])
    return chance


def by_enumeration(score: GameScore, strengths: np.ndarray) -> float:
    """Mean log-chance of the orders that the places allow; the chance of any order where a last place is open."""
    places = [tuple(map(POWERS.index, place)) for place in score.places]
    known = places[:-1] if score.last_is_open else places
    rest = places[-1] if score.last_is_open else ()
    logs = []
    for parts in itertools.product(*map(itertools.permutations, known)):
        top = tuple(itertools.chain(*parts))
        logs.append(np.log(sum(chance_of((*top, *end), strengths) for end in itertools.permutations(rest))))
    return float(np.mean(logs))


@pytest.mark.parametrize("name", [name for name in GAMES if name != "all tie"])
def test_the_likelihood_is_the_mean_over_the_orders_that_the_places_admit(name):
    assert log_likelihood(drawn(GAMES[name]), STRENGTHS) == pytest.approx(by_enumeration(GAMES[name], STRENGTHS))


@pytest.mark.parametrize("name", GAMES)
def test_gradient_and_curvature_are_the_derivatives_of_the_likelihood(name):
    draws, step = drawn(GAMES[name]), 1e-5
    gradient, curvature = gradient_and_curvature(draws, STRENGTHS)
    for seat in range(7):
        nudge = step * np.eye(7)[seat]
        slope = (log_likelihood(draws, STRENGTHS + nudge) - log_likelihood(draws, STRENGTHS - nudge)) / (2 * step)
        assert gradient[seat] == pytest.approx(slope, abs=1e-8)
        bend = gradient_and_curvature(draws, STRENGTHS + nudge)[0] - gradient_and_curvature(draws, STRENGTHS - nudge)[0]
        assert curvature[seat] == pytest.approx(-bend / (2 * step), abs=1e-8)
    assert gradient.sum() == pytest.approx(0, abs=1e-12)  # moving all strengths alike changes nothing


def test_the_likeliest_strengths_are_found_from_far_away_and_without_an_inverse():
    root = np.random.default_rng(3).normal(size=(7, 3)) * 3
    covariance = root @ root.T  # of rank 3
    mean = np.array([-4.0, 4, -4, 4, -4, 4, -4])
    for score in GAMES.values():
        draws = drawn(score)
        pull = likeliest(draws, mean, covariance)
        gradient, _ = gradient_and_curvature(draws, mean + covariance @ pull)
        assert covariance @ pull == pytest.approx(covariance @ gradient, abs=1e-6)


@pytest.mark.parametrize("name", ["two pairs tie", "solo"])
def test_the_posterior_equals_that_of_weighted_samples(name):
    """Importance sampling from the prior; two seats have the same player, whose strength they share."""
    random = np.random.default_rng(5)
    root = 0.7 * np.eye(7)
    root[3] = root[1]
    draws, mean = drawn(GAMES[name]), STRENGTHS / 2
    pull, information = posterior(draws, mean, root @ root.T)
    samples = mean + random.normal(size=(40_000, 7)) @ root.T
    totals = np.exp(samples) @ draws.among.T
    weights = np.exp(samples @ draws.drawn - np.log(totals) @ draws.weight)
    weights /= weights.sum()
    center = weights @ samples
    assert mean + root @ root.T @ pull == pytest.approx(center, abs=0.02)
    spread = (samples - center).T @ ((samples - center) * weights[:, None])
    covariance = root @ root.T
    assert covariance - covariance @ information @ covariance == pytest.approx(spread, abs=0.02)


def test_an_update_with_a_narrow_prior_equals_openskills():
    """Weng and Lin's update is the first step of this one; both agree for a narrow prior."""
    prior = Prior(mu=1000.0, sigma=1.0, deviation_sigma=0.25, role_sigma=0.5)
    countries = dict(zip(POWERS, (0.0, 60, -90, 40, 200, -10, 150), strict=True))
    centers = dict(zip(POWERS, (3, 9, 2, 7, 5, 1, 6), strict=True))
    score = world_cases.score({power: f"p{power}" for power in POWERS}, centers)
    book = RatingBook(POWERS, RatingScale(countries, {}, {}), prior)
    book.record(score)

    sigmas = np.array([prior.sigma, prior.role_sigma, prior.deviation_sigma]) / POINTS
    # Its unit of strength is c = sqrt(sum of all variances and of seven beta²); here made 1.
    reference = PlackettLuce(beta=(1 / 7 - float(np.square(sigmas).sum())) ** 0.5, tau=0.0, gamma=lambda *_: 1.0)
    teams = [
        [
            reference.rating(mu / POINTS, sigma)
            for mu, sigma in zip((prior.mu, countries[power], 0.0), sigmas, strict=True)
        ]
        for power in POWERS
    ]
    rated = reference.rate(teams, ranks=[-centers[power] for power in POWERS])
    for number, power in enumerate(POWERS):
        player, country, deviation = rated[number]
        rows = book.belief.rows(f"p{power}")
        ours = book.belief.mean[rows]
        spread = np.sqrt(np.diag(book.belief.covariance))
        assert ours[0] - prior.mu == pytest.approx(player.mu * POINTS - prior.mu, rel=2e-3)
        assert book.belief.mean[number] - countries[power] == pytest.approx(
            country.mu * POINTS - countries[power], rel=2e-3
        )
        assert ours[1 + number] == pytest.approx(deviation.mu * POINTS, rel=2e-3)
        assert prior.sigma - spread[rows][0] == pytest.approx(prior.sigma - player.sigma * POINTS, rel=2e-3)


@pytest.mark.parametrize("own", [("FRANCE",), ("FRANCE", "ITALY", "TURKEY"), POWERS[:6]])
def test_a_player_in_several_seats_is_rated_as_by_numerical_integration(own):
    """Against fixed opponents a rating is one number, whose posterior can be integrated."""
    prior = Prior(mu=1000.0, sigma=150.0, deviation_sigma=1e-3, role_sigma=1e-3)
    anchor = {"bot/random": dict.fromkeys(POWERS, 1000.0)}
    book = RatingBook(POWERS, RatingScale(dict.fromkeys(POWERS, 0.0), anchor, {}), prior)
    seats = {power: "p" if power in own else "bot/random" for power in POWERS}
    score = world_cases.score(seats, dict(zip(POWERS, (2, 4, 9, 1, 6, 0, 8), strict=True)))
    book.record(score)

    grid = np.linspace(200, 1800, 1601)
    mine = np.array([power in own for power in POWERS], float)
    logs = [log_likelihood(drawn(score), mine * point / POINTS + (1 - mine) * 1000 / POINTS) for point in grid]
    weights = np.exp(np.array(logs) - max(logs) - ((grid - prior.mu) / prior.sigma) ** 2 / 2)
    weights /= weights.sum()
    mean = weights @ grid
    sigma = (weights @ (grid - mean) ** 2) ** 0.5
    assert book.rating("p").mu == pytest.approx(mean, abs=0.03 * sigma)
    assert book.rating("p").sigma == pytest.approx(sigma, rel=0.03)
    assert sigma < prior.sigma


@pytest.mark.parametrize(
    ("places", "is_open"), [((("b",), ("a",)), False), ((("a", "b"),), False), ((("c",), ("a", "b")), True)]
)
def test_games_of_two_and_three_seats_follow_the_same_rule(places, is_open):
    roles = sorted(role for place in places for role in place)
    draws = draws_of(GameScore(dict.fromkeys(roles, "x"), world_cases.finished(places, last_is_open=is_open)), roles)
    strengths = STRENGTHS[: len(roles)]
    chances = np.exp(strengths) / np.exp(strengths).sum()
    expected = {
        (("b",), ("a",)): np.log(chances[1]),
        (("a", "b"),): np.log(chances).mean(),
        (("c",), ("a", "b")): np.log(chances[-1]),
    }[places]
    assert log_likelihood(draws, strengths) == pytest.approx(expected)
    pull, information = posterior(draws, strengths, np.eye(len(roles)))
    assert (pull.shape, information.shape) == ((len(roles),), (len(roles),) * 2)
    assert pull.sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("tied", [MOST_TIED_EXACTLY, MOST_TIED_EXACTLY + 1, 30])
def test_a_tie_of_many_seats_is_half_a_win_for_each_of_two_and_takes_no_time(tied):
    roles = [f"r{number:02}" for number in range(tied + 1)]
    score = GameScore(dict.fromkeys(roles, "x"), world_cases.finished([roles[:1], roles[1:]]))
    draws = draws_of(score, roles)
    assert len(draws.among) <= 1 + max(2**MOST_TIED_EXACTLY, 2 * tied**2)
    gradient, _ = gradient_and_curvature(draws, np.zeros(tied + 1))
    assert gradient[0] > 0
    assert gradient[1:] == pytest.approx([-gradient[0] / tied] * tied)
    worse = np.zeros(tied + 1)
    worse[1] = -3.0  # it did as well as the others, so it must be stronger than this
    assert gradient_and_curvature(draws, worse)[0][1] > 0
