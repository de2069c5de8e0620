"""Simulated games are the game's own; sheets are legal and differ; the bot takes the best of what it looked at."""

from __future__ import annotations

import random
import re
from statistics import mean, pvariance

import pytest

from services.environments.diplomacy.bots.lookahead.candidates import candidate_sheets, changed_sheet
from services.environments.diplomacy.bots.lookahead.compiled_games import CompiledGames, are_compiled
from services.environments.diplomacy.bots.lookahead.engine_games import EngineGames
from services.environments.diplomacy.bots.lookahead.lookahead import LookaheadBot
from services.environments.diplomacy.bots.lookahead.simulation import SOLO_CENTERS, Simulator
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.geography import geography
from services.environments.diplomacy.rules.orders import sheet
from services.environments.diplomacy.text.language import DiplomacyLanguage

DUMBBOT, GREEDY = make_bot("dumbbot"), make_bot("greedy")
FEW = ((6, 1), (2, 1))  # candidates and games: enough to see that all kinds of phases work


def positions(seed: int, until_year: int = 1904) -> list[Position]:
    """The positions of a game of greedy bots and DumbBots."""
    game, rng, seen = DiplomacyGame(until_year), random.Random(seed), []
    while not game.is_done:
        position = game.position
        seen.append(position)
        for number, power in enumerate(position.to_move):
            bot = GREEDY if number % 2 else DUMBBOT
            game.set_orders(power, bot.actions(position, power, rng.getrandbits(63)))
        game.process()
    assert {each.kind for each in seen} == {"M", "R", "A"}
    return seen


def lone(phase: str, units: dict[str, list[str]], centers: dict[str, list[str]]) -> Position:
    state = {"name": phase, "units": units, "retreats": {}, "centers": centers}
    return DiplomacyGame.from_state(state, 1999).position


def plain_centers(position: Position, power: str, orders: tuple[str, ...], seed: int, last_year: int) -> int:
    """``EngineGames.centers`` with checked orders, in a new game of the usual kind, last adjustments included."""
    draws = random.Random(seed)
    players = {each: draws.choice((DUMBBOT, GREEDY) if each == power else (DUMBBOT,)) for each in POWERS}
    game = DiplomacyGame.from_state(position.state(), last_year)
    first = True
    later = random.Random(seed + 1)
    while not game.is_done and game.centers()[power]:
        now = game.position
        for each in now.to_move:
            rng = draws if first else later
            found = orders if first and each == power else players[each].actions(now, each, rng.getrandbits(63))
            assert game.set_orders(each, found) == ()
        game.process()
        first = False
    return game.centers()[power]


def test_a_simulated_game_is_the_games_own_and_leaves_no_trace() -> None:
    for position in positions(seed=3)[::4]:
        power = position.to_move[-1]
        orders = GREEDY.actions(position, power, 5)
        simulator = EngineGames(position, power, (DUMBBOT,), (DUMBBOT, GREEDY), position.year + 1)
        found = [simulator.centers(orders, seed) for seed in (1, 2, 3)]
        assert found == [plain_centers(position, power, orders, seed, position.year + 1) for seed in (1, 2, 3)]
        assert [simulator.centers(orders, seed) for seed in (3, 2, 1)] == found[::-1]


def test_compiled_games_end_as_those_of_the_engine_do_on_average() -> None:
    differences, variances, games = [], [], 40
    for position in positions(seed=9)[1::3]:
        power = position.to_move[0]
        orders = GREEDY.actions(position, power, 5)
        engine, compiled = (
            kind(position, power, (DUMBBOT, GREEDY), (DUMBBOT, GREEDY), position.year + 1)
            for kind in (EngineGames, CompiledGames)
        )
        ours, theirs = ([each.centers(orders, seed) for seed in range(games)] for each in (engine, compiled))
        assert [compiled.centers(orders, seed) for seed in range(games)] == theirs
        differences.append(mean(ours) - mean(theirs))
        variances.append((pvariance(ours) + pvariance(theirs)) / games)
        assert abs(differences[-1]) <= 5 * variances[-1] ** 0.5 + 0.1
    assert abs(mean(differences)) <= 4 * sum(variances) ** 0.5 / len(variances) + 0.02


def test_a_convoy_in_a_compiled_game_is_the_engines() -> None:
    units = {"ENGLAND": ["A LON", "F NTH"], "TURKEY": ["A ANK"]}
    position = lone("F1901M", units, {"ENGLAND": ["LON", "EDI", "LVP"], "TURKEY": ["ANK"]})
    games = CompiledGames(position, "ENGLAND", (DUMBBOT,), (DUMBBOT,), 1901)
    assert games.centers(("A LON - NWY VIA", "F NTH C A LON - NWY"), 1) == 4
    assert games.centers(("A LON - NWY VIA", "F NTH H"), 1) == 3
    assert games.centers(("A LON H", "F NTH - NWY"), 1) == 4
    owned = [center for center in geography().centers if center not in ("ANK", "CON", "NWY", "SMY")][:17]
    units = {"ENGLAND": ["A LON", "F NTH"], "TURKEY": ["A SYR"]}
    winning = lone("F1901M", units, {"ENGLAND": owned, "TURKEY": ["SMY"]})
    games = CompiledGames(winning, "ENGLAND", (DUMBBOT,), (DUMBBOT,), 1902)
    assert games.centers(("A LON - NWY VIA", "F NTH C A LON - NWY"), 1) == 18


def test_only_bots_that_are_compiled_play_compiled_games() -> None:
    assert are_compiled([DUMBBOT, GREEDY])
    assert not are_compiled([DUMBBOT, make_bot("hold")])
    position = positions(seed=3)[0]
    simulator = Simulator(position, "ITALY", (make_bot("hold"),), (DUMBBOT,), 1901)
    assert simulator.centers(("A ROM H", "A VEN H", "F NAP H"), 1) in (3.0, 4.0, 5.0)


def greedy_seats(games: EngineGames | CompiledGames, seed: int) -> list[bool]:
    """Whether the greedy bot plays each power in the simulated game of a seed."""
    players, _ = games._opening(seed)
    return [player is GREEDY or player == 1 for player in (players.values() if isinstance(players, dict) else players)]


@pytest.mark.parametrize("kind", [EngineGames, CompiledGames])
def test_each_seat_can_expect_its_own_bots(kind: type[EngineGames] | type[CompiledGames]) -> None:
    position = positions(seed=3)[0]
    orders = ("A ROM H", "A VEN H", "F NAP H")
    by_power = {power: (GREEDY,) if power in ("AUSTRIA", "TURKEY") else (DUMBBOT,) for power in POWERS}
    games = kind(position, "ITALY", by_power, (GREEDY,), 1901)
    expected = [power in ("AUSTRIA", "ITALY", "TURKEY") for power in POWERS]
    assert all(greedy_seats(games, seed) == expected for seed in range(4))
    same = [kind(position, "ITALY", each, (GREEDY,), 1901) for each in ((DUMBBOT,), dict.fromkeys(POWERS, (DUMBBOT,)))]
    one, other = ([simulated.centers(orders, seed) for seed in range(6)] for simulated in same)
    assert one == other
    mixed = kind(position, "ITALY", (DUMBBOT, GREEDY), (GREEDY,), 1901)
    drawn = [greedy_seats(mixed, seed) for seed in range(20)]
    assert all(players[POWERS.index("ITALY")] for players in drawn)
    assert {player for players in drawn for player in players} == {False, True}


def test_a_position_goes_through_its_state() -> None:
    for position in positions(seed=4):
        assert DiplomacyGame.from_state(position.state(), 1999).position == position


def test_a_solo_counts_more_than_any_other_result() -> None:
    owned = [
        *[
            "ANK",
            "BUL",
            "CON",
            "SMY",
            "SEV",
            "RUM",
            "GRE",
            "SER",
            "BUD",
            "VIE",
            "TRI",
            "WAR",
            "MOS",
            "NAP",
            "ROM",
            "VEN",
            "TUN",
        ]
    ]
    position = lone("F1910M", {"TURKEY": ["A UKR"], "FRANCE": ["A PAR"]}, {"TURKEY": owned, "FRANCE": ["PAR"]})
    simulator = Simulator(position, "TURKEY", (DUMBBOT,), (GREEDY,), 1910)
    assert simulator.centers(("A UKR H",), 1) == 17.0
    winning = lone("F1910M", {"TURKEY": ["A LVN"], "FRANCE": ["A PAR"]}, {"TURKEY": owned, "FRANCE": ["PAR"]})
    assert Simulator(winning, "TURKEY", (DUMBBOT,), (GREEDY,), 1910).centers(("A LVN - STP",), 1) == SOLO_CENTERS


def test_candidates_are_different_legal_sheets_and_those_of_bots_come_first() -> None:
    changed = 0
    for position in positions(seed=5):
        for power in position.to_move:
            found = candidate_sheets(position, power, (DUMBBOT, GREEDY), 12, random.Random(1))
            assert 1 <= len(found) == len(set(found)) <= 12
            slots = sheet(position, power)
            for orders in found:
                assert len(orders) == len(slots)
                taken = [order[2:5] for order in orders if order.endswith(" B")]
                assert len(taken) == len(set(taken))
                assert all(order in slot.alternatives for order, slot in zip(orders, slots, strict=True))
            other = changed_sheet(position, power, found[0], random.Random(2))
            differences = len(set(other) ^ set(found[0]))
            assert differences in (0, 1, 2)  # one is a build in place of another waiver
            changed += differences > 0
    assert changed > 50


@pytest.mark.parametrize("seed", [6, 7])
def test_orders_are_legal_and_reproducible_in_every_kind_of_phase(seed: int) -> None:
    kinds = set()
    for position in positions(seed)[1::5]:
        power = position.to_move[0]
        choice = LookaheadBot(rounds=FEW).choose(position, power, 11)
        assert len(choice.actions) == len(sheet(position, power))
        assert DiplomacyGame.from_state(position.state(), 1999).set_orders(power, choice.actions) == ()
        if choice.values:
            assert choice.actions in choice.values
        position.memo.clear()
        assert LookaheadBot(rounds=FEW).choose(position, power, 11) == choice
        kinds.add(position.kind)
    assert "M" in kinds
    waiting = next(each for each in positions(seed) if each.kind != "M")
    idle = next(power for power in POWERS if power not in waiting.to_move)
    assert LookaheadBot(rounds=FEW).actions(waiting, idle, 1) == ()


def test_it_takes_a_centre_in_reach() -> None:
    centers = {"ENGLAND": ["LON", "EDI", "LVP"], "TURKEY": ["ANK"]}
    position = lone("F1901M", {"ENGLAND": ["F NTH", "A LON", "A EDI"], "TURKEY": ["A ANK"]}, centers)
    choice = LookaheadBot(rounds=((16, 1), (4, 2))).choose(position, "ENGLAND", 1)
    assert any(re.search(r"- (NWY|DEN|BEL|HOL)( VIA)?$", order) for order in choice.actions)


def test_what_was_played_stays_unless_another_sheet_is_better_by_the_margin() -> None:
    bot, hold, changed = LookaheadBot(rounds=FEW), make_bot("hold"), []
    for position in positions(seed=8)[::3]:
        for power in position.to_move[:3]:
            played = hold.actions(position, power, 0)
            found = bot.improved(position, power, played, 0.5, 1)
            choice = bot.choose(position, power, 1, played)
            assert not choice.values or played in choice.values
            if found == played:
                assert choice.values.get(choice.actions, 0.0) <= choice.values.get(played, 0.0) + 0.5
            else:
                assert found == choice.actions
                assert choice.values[found] > choice.values[played] + 0.5
                changed.append(found)
            assert bot.improved(position, power, played, 30.0, 1) == played
    assert len(changed) > 3


def test_all_candidates_meet_the_first_games_also_changes_of_what_was_played() -> None:
    position = positions(seed=8)[0]
    played = make_bot("hold").actions(position, "FRANCE", 0)
    values = LookaheadBot(rounds=((12, 1), (2, 1))).choose(position, "FRANCE", 1, played).values
    changed = [orders for orders in values if sum(a != b for a, b in zip(orders, played, strict=True)) == 1]
    assert changed  # no bot holds with all units but one
    language = DiplomacyLanguage()  # units without an order hold
    proposed = [language.written((order,), position, "FRANCE") for order in ("F BRE - PIC", "A PAR - PIC")]
    choice = LookaheadBot(rounds=((2, 1), (2, 1))).choose(position, "FRANCE", 1, proposed=proposed)
    assert len(choice.values) >= 4
    assert set(proposed) <= set(choice.values)
