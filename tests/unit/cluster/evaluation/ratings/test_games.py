"""Rating matches: which player has which country, and the order in which results are reported."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from cluster.configs.loader import load_config
from cluster.evaluation.ratings.games import RatingGame, play_in_order, play_rating_game, rating_games
from cluster.evaluation.ratings.matches import _rated_world
from opponents.play import play_game
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.dated_game import DatedGame
from services.environments.diplomacy.position import POWERS
from services.environments.playing import Decision
from tests.unit.opponents.world_cases import Cards, diplomacy


def test_each_player_has_each_country_equally_often_and_meets_different_neighbours():
    players = {f"p{number}": None for number in range(5)}
    games = rating_games(players, 20, seed=1, roles=POWERS)
    assert len(games) == 100
    assert len({game.seed for game in games}) == 100
    held = Counter((player, power) for game in games for power, player in game.seats.items())
    assert held == dict.fromkeys([(player, power) for player in players for power in POWERS], 20)
    met = Counter((game.seats["ITALY"], game.seats["TURKEY"]) for game in games)
    assert len(met) >= 20  # of 25 pairs
    assert rating_games(players, 20, seed=1, roles=POWERS) == games
    assert rating_games(players, 20, seed=2, roles=POWERS) != games


def test_a_specialist_plays_its_country_and_the_others_share_the_rest():
    games = rating_games({"a": None, "b": None, "c": "ITALY"}, 6, seed=0, roles=POWERS)
    held = Counter((player, power) for game in games for power, player in game.seats.items())
    assert {power: held["c", power] for power in POWERS if held["c", power]} == {"ITALY": 6}
    assert held["a", "ITALY"] == held["b", "ITALY"] == 6
    assert held["a", "FRANCE"] == held["b", "FRANCE"] == 9
    with pytest.raises(ValueError, match="no player for AUSTRIA"):
        rating_games({"c": "ITALY"}, 1, seed=0, roles=POWERS)


def test_each_player_has_each_seat_of_another_world_equally_often():
    games = rating_games({"a": None, "b": None, "c": "B"}, 6, seed=0, roles=Cards().roles)
    held = Counter((player, seat) for game in games for seat, player in game.seats.items())
    assert {tuple(game.seats) for game in games} == {("C", "A", "B")}
    assert {seat: held["c", seat] for seat in "ABC"} == {"A": 0, "B": 6, "C": 0}
    assert held["a", "A"] == held["b", "C"] == 9


def test_a_match_ends_in_the_standing_of_its_world():
    seats = {power: "bot/greedy" if power in ("FRANCE", "TURKEY") else "bot/hold" for power in POWERS}
    players = {player: make_bot(player.removeprefix("bot/")) for player in set(seats.values())}
    match = RatingGame(seats, seed=4)
    score = asyncio.run(play_rating_game(match, players, diplomacy(1911)))
    dated = asyncio.run(play_rating_game(match, players, diplomacy(1911).as_rated()))
    assert score.seats == dated.seats == seats
    assert score.standing.shares == dated.standing.shares
    assert len(score.places[-1]) > 1
    assert (score.last_is_open, dated.last_is_open) == (True, False)
    assert {power for place in dated.places[len(score.places) - 1 :] for power in place} == set(score.places[-1])


def test_games_of_the_calibration_have_elimination_dates():
    seats = {power: "bot/greedy" if power in ("FRANCE", "TURKEY") else "bot/hold" for power in POWERS}
    players = {player: make_bot(player.removeprefix("bot/")) for player in set(seats.values())}
    game = DatedGame(1911)
    asyncio.run(play_game(game, {power: players[player] for power, player in seats.items()}, 4))
    fallen = {power for power, count in game.centers().items() if count == 0}
    assert fallen
    assert set(game.eliminated) == fallen
    later = sorted(fallen, key=lambda power: -game.eliminated[power])
    standing = game.result().standing
    assert standing is not None
    assert [game.eliminated[power] for place in standing.places for power in place if power in fallen] == [
        game.eliminated[power] for power in later
    ]


def test_a_power_that_regains_a_centre_is_not_eliminated(monkeypatch):
    game, owned = DatedGame(1910), [1, 0, 0, 1, 0, 0]
    monkeypatch.setattr("services.environments.diplomacy.dated_game.DiplomacyGame.process", lambda self: owned.pop(0))
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
    asyncio.run(play_in_order(games, players, diplomacy(1901), 3, lambda score: reported.append(score.seats["ITALY"])))
    assert reported == ["slow", "quick", "quick"]


def test_rated_games_of_diplomacy_date_eliminations_also_to_another_year():
    config = load_config("smoke")
    for until_year, last in ((None, config.game.until_year), (1911, 1911)):
        game = _rated_world(config, until_year).new_game("", "FRANCE", 0)
        assert isinstance(game, DatedGame)
        assert game.until_year == last
