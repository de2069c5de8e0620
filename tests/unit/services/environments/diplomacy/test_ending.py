"""When games end: by their last year, or as a draw once no centre changes hands."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.ending import TO_THE_END, Ending, parse_ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.diplomacy.world import Diplomacy

Orders = Mapping[str, Mapping[str, Sequence[str]]]  # by phase and power; all others hold


def play(game: DiplomacyGame, orders: Orders) -> DiplomacyGame:
    while not game.is_done:
        given_now = orders.get(game.phase, {})
        game.step({power: given_now.get(power, ()) for power in game.to_act()})
    return game


SERBIA = {"S1901M": {"AUSTRIA": ["A BUD - SER"]}}


@pytest.mark.parametrize(
    ("orders", "years", "last"),
    [({}, 5, 1905), ({}, 1, 1901), (SERBIA, 5, 1906), (SERBIA, 2, 1903)],
)
def test_a_game_is_drawn_once_no_centre_changed_hands_for_so_many_years(orders: Orders, years: int, last: int) -> None:
    game = play(DiplomacyGame(1999, quiet_years=years), orders)
    outcome = game.outcome()
    assert (outcome.kind, outcome.final_year, game.phase) == ("draw", last, f"S{last + 1}M")
    assert outcome.winners == POWERS
    results = game.result().outcomes
    assert all(own["draw"] == 1 and own["final_year"] == last for own in results.values())


def test_the_last_year_ends_a_game_that_is_not_quiet_yet() -> None:
    outcome = play(DiplomacyGame(1903, quiet_years=5), {}).outcome()
    assert (outcome.kind, outcome.final_year, outcome.winners) == ("year_limit", 1903, ())


def test_training_evaluation_and_imitation_each_have_their_own_quiet_years() -> None:
    world = Diplomacy(GameSettings(until_year=1935, quiet_years=2))
    as_seen = {
        "training": world,
        "rated": world.as_rated(),
        "evaluated": world.as_evaluated(DiplomacyEvaluation(until_year=1904)),
        "measured": world.as_measured(DiplomacyEvaluation(until_year=1935, quiet_years=1)),
        "imitated": world.as_imitated(DiplomacyImitation(until_year=1903)),
    }
    ends = {name: play(each.new_game("", "FRANCE", 1), {}).outcome() for name, each in as_seen.items()}
    assert {name: (found.kind, found.final_year) for name, found in ends.items()} == {
        "training": ("draw", 1902),
        "rated": ("draw", 1902),
        "evaluated": ("year_limit", 1904),
        "measured": ("draw", 1901),
        "imitated": ("year_limit", 1903),
    }


@pytest.mark.parametrize("years", [1, 2])
def test_quiet_years_agree_with_the_owners_of_the_centres(years: int) -> None:
    """An independent reading: the game is over at the first spring before which the owners were so long the same."""
    for seed in range(3):
        rng, bot = random.Random(seed), make_bot("random")
        game = DiplomacyGame(1915, quiet_years=years)
        owners = [{power: set(game.position.centers[power]) for power in POWERS}]  # at each spring, from 1901 on
        while not game.is_done:
            before = game.phase
            idle = rng.random() < 0.7  # otherwise random play takes centres nearly every year
            game.step({
                power: () if idle else bot.actions(game.position, power, rng.getrandbits(40))
                for power in game.to_act()
            })  # fmt: skip
            if int(game.phase[1:5]) > int(before[1:5]):
                owners.append({power: set(game.position.centers[power]) for power in POWERS})
        same = [later == earlier for earlier, later in pairwise(owners)]
        quiet = [all(same[year + 1 - years : year + 1]) for year in range(years - 1, len(same))]
        assert quiet.index(True) == len(quiet) - 1 if game.outcome().kind == "draw" else not any(quiet)


def test_a_continued_game_counts_from_where_it_continues() -> None:
    begun = DiplomacyGame(1999)
    while begun.phase != "S1903M":
        begun.step(dict.fromkeys(begun.to_act(), ()))
    game = DiplomacyGame.from_state(begun.state(), 1999, quiet_years=2)
    assert play(game, {}).outcome().final_year == 1904


@given(st.integers(1901, 1999))
def test_a_year_is_an_ending(year: int) -> None:
    assert parse_ending(f" {year}") == Ending(year)
    assert str(Ending(year)) == str(year)
    assert str(Ending(year, 1)) == f"{year}, or a draw after 1 year without a change of centres"


@pytest.mark.parametrize("text", ["1900", "2000", "", "ends", "-1905", "1905.0", "١٩٠٥", "9" * 5000])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a year from 1901 to 1999 nor 'end'"):
        parse_ending(text)


def test_to_the_end_is_said_in_full() -> None:
    assert parse_ending("END") == TO_THE_END
    assert str(TO_THE_END) == "1935, or a draw after 5 years without a change of centres"
