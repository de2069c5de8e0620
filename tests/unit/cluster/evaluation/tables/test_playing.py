"""A finished table says who finished where, exactly as rating matches do."""

from __future__ import annotations

import asyncio

from cluster.evaluation.players.opening import open_policy
from cluster.evaluation.tables.designs import mixed_tables
from cluster.evaluation.tables.places import this_process
from cluster.evaluation.tables.playing import CONCURRENT_GAMES, SLOW_GAMES, games_at_once
from cluster.evaluation.tables.table import Played, PlayerSpec
from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy

WORLD = Diplomacy(GameSettings()).as_measured(DiplomacyEvaluation(until_year=1903))
NAMES = ("greedy", "random")


def test_the_standing_of_a_table_is_that_of_a_rating_match() -> None:
    found: list[Played] = []
    with this_process(WORLD, [PlayerSpec(name) for name in NAMES]) as place:
        place.play(mixed_tables(WORLD, 2, 1, seed=2)[:2], found.append)
    bots = [WORLD.make_bot(name) for name in NAMES]
    for each in found:
        table = each.table
        game = WORLD.as_rated().new_game(table.start, table.role, table.seed)
        record = asyncio.run(play_game(game, {role: bots[own] for role, own in table.seats.items()}, table.seed))
        assert each.standing is not None
        assert each.standing == record.result.standing
        first = each.standing.places[0][0]
        assert each.outcomes[first]["rank"] == (1 + len(each.standing.places[0])) / 2


def test_few_games_at_once_where_players_are_slow() -> None:
    remotes = ChatPlayers({})
    fast, slow = open_policy("policy:champion", remotes), open_policy("champion", remotes)
    bot, slow_bot = WORLD.make_bot("dumbbot"), WORLD.make_bot("lookahead")
    assert games_at_once([bot, bot]) == games_at_once([bot, slow_bot]) == games_at_once([fast, slow_bot]) == 1
    assert games_at_once([fast, bot]) == CONCURRENT_GAMES
    assert games_at_once([slow, bot]) == games_at_once([slow, fast]) == SLOW_GAMES
