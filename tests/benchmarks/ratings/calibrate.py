"""Measure the strength of bots and countries: the constants of Diplomacy's ``scoring/calibration.py``.

    python -m tests.benchmarks.ratings.calibrate --out tests/benchmarks/ratings/calibration.json

Half of the games are mixed tables, where every bot has every country equally often; in the other half each bot plays
alone against six of each other one. The constants come from all games. The predictions are checked
with ratings of the even games applied to the odd ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from cluster.evaluation.ratings.games import RatingGame, play_in_order, rating_games
from cluster.runs.progress_bars import progress_bars
from cluster.runs.provenance import commit
from grpo_core.seeds import derive_seed
from opponents.ratings.belief import Prior
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.environment import RatingScale
from tests.benchmarks.ratings.predictions import expected_share, win_probability

BOTS = ("dumbbot", "greedy", "hold", "random")  # lookahead is too slow for thousands of games
PLAYERS = tuple(f"bot/{name}" for name in BOTS)
ORIGIN = "bot/random"  # at 1000 points
PRIOR = Prior(role_sigma=150.0)


def all_games(rounds: int, seed: int) -> list[RatingGame]:
    """Mixed tables, then as many of one bot among six others."""
    mixed = rating_games(dict.fromkeys(PLAYERS), rounds, derive_seed(seed, "mixed"), POWERS)
    pairs = [(one, six) for one in PLAYERS for six in PLAYERS if one != six]
    alone = [
        RatingGame({seat: one if seat == power else six for seat in POWERS}, derive_seed(seed, one, six, power, number))
        for number in range(math.ceil(len(mixed) / len(pairs) / len(POWERS)))
        for one, six in pairs
        for power in POWERS
    ]
    return mixed + alone


def rated(scores: Sequence[GameScore]) -> RatingBook:
    book = RatingBook(POWERS, RatingScale.even(POWERS), PRIOR)
    for score in scores:
        book.record(score)
    return book


def share_slope(book: RatingBook, scores: Sequence[GameScore]) -> float:
    """The slope with the least squared error of expected shares, over some 400 games."""
    scores = scores[:: max(1, len(scores) // 400)]

    def error(slope: float) -> float:
        wrong = [expected_share(book, power, s.seats, slope) - s.score(power) for s in scores for power in POWERS]
        return float(np.square(wrong).mean())

    return _least(error, 0.3, 2.0)


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-3:
        a, b = high - golden * (high - low), low + golden * (high - low)
        if function(a) < function(b):
            high = b
        else:
            low = a
    return (low + high) / 2


def reliability(pairs: Sequence[tuple[float, float]], bins: int = 10) -> list[dict[str, float]]:
    """Mean prediction and mean outcome, with its standard error, in bins of equal size, the lowest first."""
    ordered = np.array(sorted(pairs))
    return [
        {
            "predicted": round(float(part[:, 0].mean()), 4),
            "happened": round(float(part[:, 1].mean()), 4),
            "standard_error": round(float(part[:, 1].std() / math.sqrt(len(part))), 4),
        }
        for part in np.array_split(ordered, bins)
    ]


def above(score: GameScore, power: str, rival: str) -> float | None:
    """1, 0, or a half for a tie; None where the order is not known."""
    place = {seat: number for number, seats in enumerate(score.places) for seat in seats}
    if place[power] == place[rival]:
        return None if score.last_is_open and place[power] == max(place.values()) else 0.5
    return float(place[power] < place[rival])


def checks(scores: Sequence[GameScore]) -> dict[str, object]:
    """Predictions for the odd games from ratings of the even ones; and how far ratings of the two halves differ."""
    fitted, held_out = rated(scores[::2]), scores[1::2]
    slope = share_slope(fitted, scores[::2])
    pairs = [(POWERS[i], POWERS[j]) for i in range(7) for j in range(i)]
    wins = [
        (win_probability(fitted, *pair, score.seats), happened)
        for score in held_out
        for pair in pairs
        if (happened := above(score, *pair)) is not None and score.seats[pair[0]] != score.seats[pair[1]]
    ]
    shares = [(expected_share(fitted, p, score.seats, slope), score.score(p)) for score in held_out for p in POWERS]
    other = rated(held_out)
    apart = []
    for player in (player for player in PLAYERS if player != ORIGIN):
        leads = [book.rating(player).mu - book.rating(ORIGIN).mu for book in (fitted, other)]
        errors = [_lead_error(book, player) for book in (fitted, other)]
        apart.append((leads[0] - leads[1]) / math.hypot(*errors))
    uniform = float(np.mean([(1 / 7 - happened) ** 2 for _, happened in shares]))
    return {
        "games_fitted": len(scores[::2]),
        "games_held_out": len(held_out),
        "win_probability": reliability(wins),
        "expected_share": reliability(shares),
        "share_variance_explained": round(1 - float(np.mean([(e - h) ** 2 for e, h in shares])) / uniform, 3),
        "halves_apart_in_standard_errors": [round(value, 2) for value in apart],
    }


def _lead_error(book: RatingBook, player: str) -> float:
    """Standard error of a player's rating less that of the origin."""
    weights = np.zeros(len(book.belief.mean))
    for name, sign in ((player, 1.0), (ORIGIN, -1.0)):
        weights[book.belief.rows(name)] = sign / len(POWERS)
        weights[book.belief.start(name)] = sign
    return book.belief.estimate(weights, slice(0, None))[1]


def constants(book: RatingBook, scores: Sequence[GameScore]) -> dict[str, object]:
    shift = 1000.0 - book.rating(ORIGIN).mu
    slope = share_slope(book, scores)
    return {
        "anchors": {p: {c: round(book.rating(p, c).mu + shift, 1) for c in POWERS} for p in PLAYERS},
        "above_random": {
            p: {"points": round(book.rating(p).mu - book.rating(ORIGIN).mu, 1), "sigma": round(_lead_error(book, p), 1)}
            for p in PLAYERS
            if p != ORIGIN
        },
        "countries": {c: round(book.worth(c).mu, 1) for c in POWERS},
        "countries_standard_error": round(book.worth(POWERS[0]).sigma, 1),
        "share_slope": round(slope, 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=200, help="seats of each bot as each country at mixed tables")
    options.add_argument("--until", type=int, default=1905)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, required=True)
    wanted = options.parse_args()
    games = all_games(wanted.rounds, wanted.seed)
    scores: list[GameScore] = []
    bots = {f"bot/{name}": make_bot(name) for name in BOTS}
    world = Diplomacy(GameSettings(until_year=wanted.until)).as_rated()
    with progress_bars(Console(stderr=True)) as stage:
        advance = stage("games", len(games))

        def record(score: GameScore) -> None:
            scores.append(score)
            advance(1)

        asyncio.run(play_in_order(games, bots, world, 1, record))
    # Mixed tables and lonely bots in turn, so that either half of the games has both.
    half = 4 * wanted.rounds
    order = sorted(range(len(scores)), key=lambda n: (n / half if n < half else (n - half) / (len(scores) - half), n))
    scores = [scores[number] for number in order]
    document = {
        "command": f"python -m tests.benchmarks.ratings.calibrate --rounds {wanted.rounds} --until {wanted.until} "
        f"--seed {wanted.seed}",
        "commit": commit(),
        "games": len(scores),
        "until_year": wanted.until,
        **constants(rated(scores), scores),
        "checks": checks(scores),
    }
    wanted.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
