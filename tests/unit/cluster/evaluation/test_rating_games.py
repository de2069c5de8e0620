"""Rating matches: which player has which country, and the order in which results are reported."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cluster.evaluation.rating_games import DatedGame, RatingGame, play_rating_game, rating_games
from cluster.evaluation.rating_matches import play_in_order
from opponents.bots.registry import make_bot
from opponents.players.policy import Decision
from services.environments.diplomacy.position import POWERS


def test_each_player_has_each_country_equally_often_and_meets_different_neighbours():
    players = {f"p{number}": None for number in range(5)}
    games = rating_games(players, 20, seed=1)
    assert len(games) == 100
    assert len({game.seed for game in games}) == 100
    held = Counter((player, power) for game in games for power, player in game.seats.items())
    assert held == dict.fromkeys([(player, power) for player in players for power in POWERS], 20)
    met = Counter((game.seats["ITALY"], game.seats["TURKEY"]) for game in games)
    assert len(met) >= 20  # of 25 pairs
    assert rating_games(players, 20, seed=1) == games
    assert rating_games(players, 20, seed=2) != games


def test_a_specialist_plays_its_country_and_the_others_share_the_rest():
    games = rating_games({"a": None, "b": None, "c": "ITALY"}, 6, seed=0)
    held = Counter((player, power) for game in games for power, player in game.seats.items())
    assert {power: held["c", power] for power in POWERS if held["c", power]} == {"ITALY": 6}
    assert held["a", "ITALY"] == held["b", "ITALY"] == 6
    assert held["a", "FRANCE"] == held["b", "FRANCE"] == 9
    with pytest.raises(ValueError, match="no player for AUSTRIA"):
        rating_games({"c": "ITALY"}, 1, seed=0)


def test_a_match_ends_in_a_score_with_elimination_dates():
    seats = {power: "bot/greedy" if power in ("FRANCE", "TURKEY") else "bot/hold" for power in POWERS}
    players = {player: make_bot(player.removeprefix("bot/")) for player in set(seats.values())}
    score = asyncio.run(play_rating_game(RatingGame(seats, seed=4), players, 1912))
    fallen = {power for power, count in score.centers.items() if count == 0}
    assert fallen
    assert set(score.eliminated) == fallen
    assert score.seats == seats


def test_a_power_that_regains_a_centre_is_not_eliminated(monkeypatch):
    game, owned = DatedGame(1910), [1, 0, 0, 1, 0, 0]
    monkeypatch.setattr("cluster.evaluation.rating_games.DiplomacyGame.process", lambda self: owned.pop(0))
    monkeypatch.setattr(game, "centers", lambda: {"ITALY": owned[0], "FRANCE": 3})
    seen = []
    for _ in range(5):
        game.process()
        seen.append(dict(game.eliminated))
    assert seen == [{"ITALY": 0}, {"ITALY": 0}, {}, {"ITALY": 3}, {"ITALY": 3}]


def test_match_results_are_reported_in_order_even_if_a_later_match_ends_first():
    """The first match has the slowest player."""

    class Slow:
        def __init__(self, naps: int) -> None:
            self.naps, self.bot = naps, make_bot("hold")

        async def act(self, position: object, power: str, seed: int) -> Decision:
            for _ in range(self.naps):
                await asyncio.sleep(0)
            return await self.bot.act(position, power, seed)

    players = {"slow": Slow(200), "quick": Slow(0)}
    games = [RatingGame(dict.fromkeys(POWERS, name), number) for number, name in enumerate(["slow", "quick", "quick"])]
    reported: list[str] = []
    asyncio.run(play_in_order(games, players, 1901, 3, lambda score: reported.append(score.seats["ITALY"])))
    assert reported == ["slow", "quick", "quick"]
