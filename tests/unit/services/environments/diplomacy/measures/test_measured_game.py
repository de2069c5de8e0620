"""What a measured game counts, and that it is the same game."""

from __future__ import annotations

import asyncio

import pytest

from opponents.play import play_game
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.measures.definitions import COMPARABLE, EVALUATED, definition
from services.environments.diplomacy.measures.measured_game import MeasuredGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision

NOTHING: dict[str, list[str]] = {power: [] for power in POWERS}


def played(game: DiplomacyGame, bot: str, seed: int) -> DiplomacyGame:
    asyncio.run(play_game(game, dict.fromkeys(POWERS, make_bot(bot)), seed))
    return game


@pytest.mark.parametrize("bot", ["dumbbot", "random"])
def test_measuring_changes_nothing_of_a_game(bot: str) -> None:
    plain, measured = played(DiplomacyGame(1904), bot, 3), played(MeasuredGame(1904), bot, 3)
    assert measured.hash() == plain.hash()
    for power, outcome in plain.result().outcomes.items():
        assert outcome.items() <= measured.result().outcomes[power].items()


def test_every_measure_has_a_value_in_its_range_in_every_game() -> None:
    for seed, bot in enumerate(("dumbbot", "greedy", "hold", "random")):
        outcomes = played(MeasuredGame(1906), bot, seed).result().outcomes
        for measure in EVALUATED:
            values = [outcome[measure.outcome] for outcome in outcomes.values()]
            assert all(measure.low <= value <= measure.high for value in values)
            assert measure.kind == "mean" or set(values) <= {0.0, 1.0}
        assert sum(outcome["top_split"] for outcome in outcomes.values()) == pytest.approx(1)
        assert sum(outcome["rank"] for outcome in outcomes.values()) == 28
        assert all(outcome["survived"] + outcome["defeated"] == 1 for outcome in outcomes.values())


def test_orders_are_counted_as_shares_of_units_in_movement_phases() -> None:
    game = MeasuredGame(1901)
    game.set_orders("FRANCE", ["A PAR - BUR", "A MAR S A PAR - BUR"])  # its fleet has no order, so it holds
    game.set_orders("GERMANY", ["A MUN - BUR", "F KIE - BER", "A XYZ H", "A BER - MOS"])
    game.set_orders("RUSSIA", ["A WAR - GAL", "A MOS - UKR", "F SEV - BLA", "F STP/SC - BOT"])
    game.process()
    france, germany, russia = (game.counts[power].shares for power in ("FRANCE", "GERMANY", "RUSSIA"))
    assert france["hold_share"] == france["support_share"] == france["effective_support_share"] == 1 / 3
    assert france["supports_received"] == 1 / 3
    assert france["legal_order_share"] == 1.0
    assert germany["legal_order_share"] == 2 / 4
    assert germany["hold_share"] == 1 / 3
    assert russia["hold_share"] == russia["foreign_support_share"] == russia["convoy_share"] == 0.0
    assert game.counts["ITALY"].shares["hold_share"] == 1.0
    assert game.counts["ITALY"].shares["legal_order_share"] == 1.0


def test_a_repaired_order_is_used_but_was_not_legal_as_written() -> None:
    class Writing:
        """A player whose text needs repairs in Spring, and holds no order that can be read in Fall."""

        async def act(self, view: Position, seat: str, seed: int) -> Decision:
            text = "a par-bur\nA MAR H\nF BRE - MAO" if view.phase == "S1901M" else "I wait"
            answer = DiplomacyLanguage().parse(text, view, seat)
            return Decision(answer.actions, defects=answer.defects)

    game = MeasuredGame(1901)
    asyncio.run(play_game(game, {**dict.fromkeys(POWERS, make_bot("hold")), "FRANCE": Writing()}, 0))
    counts = game.counts["FRANCE"]
    assert (counts.units, counts.moves, counts.holds) == (6, 2, 4)
    assert (counts.written, counts.written_legal) == (4, 2)
    assert game.result().outcomes["FRANCE"]["legal_order_share"] == 1 / 2


def test_an_order_that_was_repaired_but_not_taken_counts_once() -> None:
    game = MeasuredGame(1901)
    answer = DiplomacyLanguage().parse("A PAR - BUR\n" + 5 * "a par - bur.\n", game.position, "FRANCE")
    game.note_defects("FRANCE", answer.defects)
    game.set_orders("FRANCE", answer.actions)
    counts = game.counts["FRANCE"]
    assert (counts.written, counts.written_legal) == (6, 1)


def test_after_a_solo_the_others_have_ranks_by_their_centres_and_their_end() -> None:
    game = MeasuredGame(1999)
    centers = sorted(place for own in MeasuredGame(1901).position.centers.values() for place in own)
    more = ["NWY", "SWE", "DEN", "HOL", "BEL", "SPA", "POR", "TUN", "GRE", "SER", "RUM", "BUL"]
    owned = [*more, *centers]
    state = {
        **DiplomacyGame(1999).state(),
        "name": "F1905M",
        "units": {**NOTHING, "FRANCE": ["A PAR"], "TURKEY": ["A SYR"], "ITALY": ["A TUS"]},
        "centers": {**NOTHING, "FRANCE": owned[:18], "TURKEY": owned[18:30], "ITALY": owned[30:]},
    }
    game._engine.set_state(state)
    game.eliminated = {"AUSTRIA": 1, "ENGLAND": 2, "GERMANY": 3, "RUSSIA": 4}
    game.process()
    ranks = {power: outcome["rank"] for power, outcome in game.result().outcomes.items()}
    assert game.outcome().solo == "FRANCE"
    by_rank = sorted(ranks, key=ranks.__getitem__)
    assert by_rank == ["FRANCE", "TURKEY", "ITALY", "RUSSIA", "GERMANY", "ENGLAND", "AUSTRIA"]
    assert sorted(ranks.values()) == [1, 2, 3, 4, 5, 6, 7]
    standing = game.result().standing
    assert standing is not None
    assert standing.places == tuple((power,) for power in by_rank)  # which ratings are made from
    assert not standing.last_is_open
    assert standing.shares == {power: float(power == "FRANCE") for power in POWERS}


def test_supports_and_convoys_of_others_are_told_apart() -> None:
    state = {
        **DiplomacyGame(1999).state(),
        "name": "F1903M",
        "units": {"ENGLAND": ["A YOR", "F NTH"], "FRANCE": ["F ENG", "A PIC"], "GERMANY": ["A BEL"]},
    }
    game = MeasuredGame(1999)
    game._engine.set_state(state)
    game.set_orders("ENGLAND", ["A YOR - BEL VIA", "F NTH C A YOR - BEL"])
    game.set_orders("FRANCE", ["F ENG S A YOR - BEL", "A PIC S A YOR - BEL"])
    game.process()
    england, france = (game.counts[power].shares for power in ("ENGLAND", "FRANCE"))
    assert england["convoy_share"] == 1 / 2
    assert england["supports_received"] == 1.0  # two, for two units
    assert france["foreign_support_share"] == 1.0
    assert france["effective_foreign_support_share"] == 0.0  # one of them would have been enough


def test_each_measure_says_what_it_is() -> None:
    world = Diplomacy(GameSettings()).as_measured(DiplomacyEvaluation(until_year=1903))
    assert list(world.definitions) == [measure.row_name for measure in EVALUATED]
    assert len(set(world.definitions.values())) == len(EVALUATED)
    assert COMPARABLE.keys() <= world.definitions.keys()
    assert "compare DipNet's win" in definition(next(each for each in EVALUATED if each.row_name == "solo_rate"))
