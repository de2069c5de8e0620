"""Scores against figures counted by hand, on real adjudications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.environments.diplomacy.scenarios.scenario import Scenario
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from services.environments.diplomacy.scenarios.scores import attacks, effective_support, way
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import scenario

Orders = Mapping[str, Sequence[str]]
HOME = {"ITALY": ["NAP", "ROM", "VEN"], "AUSTRIA": ["BUD", "TRI", "VIE"], "FRANCE": ["MAR", "PAR"]}


def game_of(given: Scenario, *phases: Orders) -> ScenarioGame:
    """The scenario after these orders, phase by phase; powers without any hold, disband or waive."""
    game = ScenarioGame.begin(given)
    for orders in phases:
        game.step({power: tuple(orders.get(power, ())) for power in game.to_act()})
    return game


def test_kept_centres_are_counted_autumn_by_autumn() -> None:
    """Venice falls in the first autumn and comes back in the second."""
    units = {"ITALY": ["A VEN", "A ROM"], "AUSTRIA": ["A TRI", "A TYR"]}
    game = game_of(
        scenario(units=units, phase="F1903M", horizon="W1904A"),
        {"AUSTRIA": ["A TYR - VEN", "A TRI S A TYR - VEN"]},
        {"ITALY": ["A VEN R APU"]},
        {},  # no builds
        {"AUSTRIA": ["A VEN - PIE"], "ITALY": ["A APU - VEN"]},
        {},
    )
    while not game.is_done:
        game.step({})
    kept, strength = (1 / 2 + 1) / 2, (2 / 3 + 1) / 2
    assert game.score() == pytest.approx(0.5 * kept + 0.5 * strength)


def test_a_lost_centre_and_an_elimination_in_a_crisis() -> None:
    lost = game_of(
        scenario(),
        {"AUSTRIA": ["A TYR - VEN", "A TRI S A TYR - VEN"]},
        {"ITALY": ["A VEN R APU"]},
        {},
        {"AUSTRIA": ["WAIVE"]},
    )
    while not lost.is_done:
        lost.step({})
    assert lost.score() == pytest.approx(0.5 * 1 / 2 + 0.5 * 2 / 3)
    alone = {"units": {"ITALY": ["A APU"], "AUSTRIA": ["A VEN"]}, "centers": {"ITALY": ["VEN"], "AUSTRIA": ["TRI"]}}
    dead = game_of(scenario(**alone, score={"provinces": ["VEN"]}), {}, {}, {})
    assert dead.is_done
    assert dead.score() == 0


def test_an_opening_counts_growth_and_provinces() -> None:
    opening: dict[str, Any] = {"family": "opening", "score": {"goal": 5, "provinces": ["TUN", "ION", "TRI", "GRE"]}}
    given = scenario(**opening, phase="F1903M")
    game = game_of(given, {"ITALY": ["F NAP - ION", "A VEN H"]})
    while not game.is_done:
        game.step({})
    assert game.score() == pytest.approx(0.2 * 1 / 4)  # no growth, and the Ionian Sea
    taken = game_of(
        scenario(**opening, units={"ITALY": ["F ION", "A VEN"]}, phase="F1903M"), {"ITALY": ["F ION - TUN"]}
    )
    while not taken.is_done:
        taken.step({"ITALY": ["WAIVE"]} if taken.position.adjustments["ITALY"] > 0 else {})
    assert taken.score() == pytest.approx(0.8 * 1 / 2 + 0.2 * 1 / 4)  # four of five centres; Tunis


SUPPORT = {
    "family": "alliance",
    "score": {"goal": 2, "partner": "FRANCE"},
    "units": {"ITALY": ["A PIE", "F NAP"], "FRANCE": ["A MAR", "A BUR"], "AUSTRIA": ["A TYR", "A TRI"]},
    "centers": {**HOME, "FRANCE": ["MAR", "PAR", "BRE"]},
}


def test_support_is_effective_only_if_it_is_neither_cut_nor_void() -> None:
    def moves(*orders: Orders) -> Any:
        return game_of(scenario(**SUPPORT), *orders).record().moves[-1]

    helped = moves({"ITALY": ["A PIE S A BUR - MAR"], "FRANCE": ["A BUR - MAR", "A MAR - GAS"]})
    assert effective_support(helped, "ITALY", "FRANCE", for_moves=True)
    assert not effective_support(helped, "FRANCE", "ITALY")
    void = moves({"ITALY": ["A PIE S A BUR - MAR"], "FRANCE": ["A BUR H"]})
    assert not effective_support(void, "ITALY", "FRANCE")
    cut = moves(
        {"ITALY": ["A PIE S A BUR - MAR"], "FRANCE": ["A BUR - MAR", "A MAR - GAS"], "AUSTRIA": ["A TYR - PIE"]}
    )
    assert not effective_support(cut, "ITALY", "FRANCE")
    idle = moves({"ITALY": ["A PIE S A MAR"], "FRANCE": ["A MAR H"]})
    assert not effective_support(idle, "ITALY", "FRANCE")  # nothing moved against Marseilles
    own = moves({"ITALY": ["A PIE S A MAR"], "FRANCE": ["A MAR H", "A BUR - MAR"]})
    assert not effective_support(own, "ITALY", "FRANCE")  # its own unit is no attacker


def test_support_of_a_unit_that_stays_counts_under_attack() -> None:
    units = {"ITALY": ["A VEN", "F ADR"], "FRANCE": ["A TRI", "A MAR"], "AUSTRIA": ["A VIE", "A BUD"]}
    given = scenario(**{**SUPPORT, "units": units})
    orders = {"ITALY": ["F ADR S A TRI"], "FRANCE": ["A TRI H"], "AUSTRIA": ["A VIE - TRI", "A BUD S A VIE - TRI"]}
    moves = game_of(given, orders).record().moves[-1]
    assert effective_support(moves, "ITALY", "FRANCE")
    assert not effective_support(moves, "ITALY", "FRANCE", for_moves=True)


def test_an_alliance_pays_joint_gain_support_and_restraint() -> None:
    units = {"ITALY": ["A PIE", "F WES"], "FRANCE": ["A MAR", "A GAS"], "AUSTRIA": ["A TYR"]}
    given = scenario(**{**SUPPORT, "units": units}, phase="F1903M", horizon="F1903R")
    both = game_of(given, {"ITALY": ["F WES - TUN", "A PIE H"], "FRANCE": ["A GAS - SPA", "A MAR S A GAS - SPA"]})
    assert both.is_done
    assert both.score() == pytest.approx(0.7 * 1)  # Tunis and Spain, no support between them
    watching = game_of(given, {"FRANCE": ["A GAS - SPA"]})
    assert watching.score() == 0  # the partner's gain counts up to the own one
    helping = game_of(given, {"ITALY": ["F WES S A GAS - SPA"], "FRANCE": ["A GAS - SPA"]})
    assert helping.score() == pytest.approx(0.3)
    attacking = game_of(given, {"ITALY": ["A PIE - MAR", "F WES - TUN"], "FRANCE": ["A GAS - SPA"]})
    assert attacks(attacking.record().moves[-1], "ITALY", "FRANCE")
    assert attacking.score() == 0


def test_endgames_are_won_held_and_stopped() -> None:
    board = ["TRI", "VIE", "BUD", "SER", "GRE", "BUL", "RUM", "CON", "SMY", "ANK", "MUN", "BER", "KIE"]
    thirteen: dict[str, Any] = {
        "family": "endgame",
        "country": "AUSTRIA",
        "phase": "F1903M",
        "horizon": "F1903R",
        "units": {"AUSTRIA": ["A TYR", "A BOH"], "ITALY": ["F NAP"]},
        "centers": {"AUSTRIA": board, "ITALY": ["NAP", "ROM", "VEN"]},
    }
    win = scenario(**thirteen, score={"aim": "win"})
    assert game_of(win, {"AUSTRIA": ["A TYR - VEN"]}).score() == pytest.approx(1 / 5)
    assert game_of(win, {}).score() == 0
    stop = scenario(**{**thirteen, "country": "ITALY"}, score={"aim": "stop", "leader": "AUSTRIA"})
    assert game_of(stop, {}).score() == pytest.approx(1 / 2)
    assert game_of(stop, {"AUSTRIA": ["A TYR - VEN"]}).score() == pytest.approx(4 / 10)
    hold = scenario(**{**thirteen, "country": "ITALY"}, score={"aim": "hold", "provinces": ["NAP", "ROM", "VEN"]})
    assert game_of(hold, {"AUSTRIA": ["A TYR - VEN"]}).score() == pytest.approx(2 / 3)


@given(st.integers(0, 17), st.integers(0, 18), st.integers(1, 18))
def test_the_way_is_a_share_that_grows(start: int, now: int, goal: int) -> None:
    if goal > start:
        assert 0 <= way(start, now, goal) <= way(start, now + 1, goal) <= 1
        assert way(start, start, goal) == 0
        assert way(start, goal, goal) == 1


def test_a_score_is_asked_for_at_the_end() -> None:
    with pytest.raises(RuntimeError, match="is not over"):
        ScenarioGame.begin(scenario()).score()
