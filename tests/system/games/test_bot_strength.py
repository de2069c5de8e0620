"""The strength of the bots over whole games with fixed seeds, compared with the figures published for DumbBot."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import pytest

from cluster.bench.system.bots import run
from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring.shares import Outcome, sum_of_squares
from services.environments.playing import Bot

pytestmark = pytest.mark.system

# Seven DumbBots to the end of 1910, 120 games: mean centres and shares of the sum of squares.
PUBLISHED = {
    "AUSTRIA": (3.41, 0.105),
    "ENGLAND": (4.34, 0.164),
    "FRANCE": (4.07, 0.141),
    "GERMANY": (2.46, 0.066),
    "ITALY": (3.02, 0.076),
    "RUSSIA": (2.74, 0.086),
    "TURKEY": (6.59, 0.361),
}
PUBLISHED_GAMES = 120
PUBLISHED_GAMES_ALONE = 70
# Both sides are samples; fourteen comparisons at this many standard errors fail by chance once in 26 times.
STANDARD_ERRORS = 3.0


def play(seats: Mapping[str, Bot], seed: int) -> Outcome:
    game, phase = DiplomacyGame(until_year=1910), 0
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            assert game.set_orders(power, seats[power].actions(position, power, derive_seed(seed, phase, power))) == ()
        game.process()
        phase += 1
    return game.outcome()


def standard_errors_apart(sample: list[float], published: float, published_games: int) -> float:
    """Difference of two means in standard errors, the published sample taken to vary as ours does."""
    error = statistics.stdev(sample) * (1 / len(sample) + 1 / published_games) ** 0.5
    return abs(statistics.fmean(sample) - published) / error


def test_seven_dumbbots_reach_the_published_centres_and_shares():
    bot = make_bot("dumbbot")
    outcomes = [play(dict.fromkeys(POWERS, bot), seed) for seed in range(120)]
    apart = {}
    for power, (centers, share) in PUBLISHED.items():
        ours = [float(outcome.centers[power]) for outcome in outcomes]
        apart[power, "centres"] = standard_errors_apart(ours, centers, PUBLISHED_GAMES)
        shares = [sum_of_squares(outcome.centers)[power] for outcome in outcomes]
        apart[power, "share"] = standard_errors_apart(shares, share, PUBLISHED_GAMES)
    assert max(apart.values()) < STANDARD_ERRORS, apart
    assert not any(outcome.kind == "solo" for outcome in outcomes)


def one_against_six(one: str, six: str, games: int) -> list[tuple[float, float, float]]:
    """Centres, survival and solo of the one seat, which rotates over the powers."""
    results = []
    for seed in range(games):
        seat = POWERS[seed % 7]
        seats = {power: make_bot(one if power == seat else six) for power in POWERS}
        outcome = play(seats, seed)
        centers = outcome.centers[seat]
        results.append((float(centers), float(centers > 0), float(outcome.winners == (seat,))))
    return results


@pytest.mark.parametrize(
    ("one", "six", "centers", "survives", "wins"),
    [("random", "dumbbot", 1.74, 0.76, None), ("dumbbot", "random", 15.7, None, 0.59)],
)
def test_one_bot_against_six_reaches_the_published_results(one, six, centers, survives, wins):
    results = one_against_six(one, six, games=70)
    for column, published in enumerate((centers, survives, wins)):
        if published is not None:
            sample = [result[column] for result in results]
            assert standard_errors_apart(sample, published, PUBLISHED_GAMES_ALONE) < STANDARD_ERRORS, (column, sample)


def test_the_bench_measures_dumbbot_against_plain_python():
    (figure,) = run(rounds=1)
    assert figure.name == "DumbBot decision"
    assert figure.ours > 0
    assert figure.yardstick > 0
