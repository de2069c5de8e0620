"""The other powers: scripted orders, and promises that are kept, broken and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.scenarios.behaviour import (
    Promising,
    closed_provinces,
    described,
    is_threatened,
    loyal,
)
from services.environments.diplomacy.scenarios.files import shipped
from services.environments.diplomacy.scenarios.scenario import Other
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from services.environments.diplomacy.scenarios.scores import attacks
from services.environments.playing import Bot
from tests.unit.services.environments.diplomacy.scenarios.scenario_cases import played, scenario


class Says(Bot):
    """Always gives the same orders."""

    def __init__(self, *orders: str) -> None:
        self._orders = orders

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        return self._orders


UNITS = {"ITALY": ["A VEN", "F NAP"], "AUSTRIA": ["A TRI", "A TYR"], "FRANCE": ["A MAR", "A BUR"]}


def game() -> ScenarioGame:
    return ScenarioGame.begin(scenario(units=UNITS))


def orders_of(other: dict[str, Any], *wanted: str, before: Sequence[dict[str, Sequence[str]]] = ()) -> tuple[str, ...]:
    """What Austria orders with these promises, if its bot wants other orders, after phases of the given orders."""
    table = game()
    player = Promising(Other.model_validate(other), Says(*wanted), "ITALY")
    for orders in before:
        said = player.actions(table.position, "AUSTRIA", 0)
        table.step({power: orders.get(power, said if power == "AUSTRIA" else ()) for power in table.to_act()})
    return tuple(sorted(player.actions(table.position, "AUSTRIA", 0)))


def test_without_promises_the_bot_decides() -> None:
    assert orders_of({}, "A TRI - VEN", "A TYR S A TRI - VEN") == ("A TRI - VEN", "A TYR S A TRI - VEN")


def test_scripted_orders_come_first_and_the_bot_fills_the_rest() -> None:
    script = {"orders": {"S1903M": ["A TRI - ALB", "A LON H"], "F1903M": ["A TYR - PIE"]}}
    assert orders_of(script, "A TRI - VEN", "A TYR - BOH") == ("A TRI - ALB", "A TYR - BOH")
    assert orders_of(script, "A TYR - BOH", before=[{"AUSTRIA": ["A TRI H"]}]) == ("A TYR - PIE",)


def test_a_spared_power_is_not_attacked_nor_is_an_attack_on_it_supported() -> None:
    spares = {"spares": ["ITALY"]}
    assert orders_of(spares, "A TRI - VEN", "A TYR S A TRI - VEN") == ("A TRI H", "A TYR H")
    assert closed_provinces(Other(spares=("ITALY",)), game().position) >= {"VEN", "NAP", "ROM"}
    assert orders_of(spares, "A TRI - ALB", "A TYR - PIE") == ("A TRI - ALB", "A TYR - PIE")


def test_a_province_stays_empty() -> None:
    assert orders_of({"stays_out_of": ["PIE", "ALB"]}, "A TRI - ALB", "A TYR - PIE") == ("A TRI H", "A TYR H")


def test_idle_units_support_the_country_into_a_province_that_they_leave_to_it() -> None:
    promises = {"spares": ["ITALY"], "supports": "always", "into": ["PIE"]}
    assert orders_of(promises, "A TYR - PIE", "A TRI - ALB") == ("A TRI - ALB", "A TYR S A VEN - PIE")


def test_idle_units_support_the_country_where_it_is_threatened() -> None:
    promises = {"spares": ["ITALY"], "supports": "always"}
    assert orders_of(promises, "A TYR - VEN", "A TRI H") == ("A TRI H", "A TYR H")  # no one reaches Venice
    near = ScenarioGame.begin(scenario(units={**UNITS, "FRANCE": ["A MAR", "A PIE"]}))
    player = Promising(Other.model_validate(promises), Says("A TYR - VEN", "A TRI H"), "ITALY")
    assert tuple(sorted(player.actions(near.position, "AUSTRIA", 0))) == ("A TRI S A VEN", "A TYR S A VEN")
    assert is_threatened(near.position, "VEN", {"ITALY", "AUSTRIA"})
    assert not is_threatened(near.position, "VEN", {"ITALY", "AUSTRIA", "FRANCE"})


def test_support_is_returned_only_after_support() -> None:
    promises = {"supports": "returned", "into": ["PIE"]}
    wanted = ("A TRI - ALB", "A TYR H")
    assert orders_of(promises, *wanted)[1] == "A TYR H"
    helped = [{"ITALY": ["A VEN S A TRI"], "AUSTRIA": ["A TRI H", "A TYR H"]}]
    assert orders_of(promises, *wanted, before=helped) == ("A TRI - ALB", "A TYR S A VEN - PIE")
    left = [{"ITALY": ["A VEN H"], "AUSTRIA": ["A TRI H", "A TYR H"]}]
    assert orders_of(promises, *wanted, before=left)[1] == "A TYR H"


def test_an_attack_ends_the_promises_unless_they_forgive() -> None:
    attacked = [{"ITALY": ["A VEN - TRI"], "AUSTRIA": ["A TRI H", "A TYR H"]}]
    wanted = ("A TRI - VEN", "A TYR S A TRI - VEN")
    assert orders_of({"spares": ["ITALY"]}, *wanted, before=attacked) == wanted
    assert orders_of({"spares": ["ITALY"], "forgives": True}, *wanted, before=attacked) == ("A TRI H", "A TYR H")
    quiet = [{"AUSTRIA": ["A TRI H", "A TYR H"]}]
    assert orders_of({"spares": ["ITALY"]}, *wanted, before=quiet) == ("A TRI H", "A TYR H")


def test_promises_end_at_their_date() -> None:
    wanted, quiet = ("A TRI - VEN", "A TYR S A TRI - VEN"), [{"AUSTRIA": ["A TRI H", "A TYR H"]}]
    promises = {"spares": ["ITALY"], "until": "F1903M"}
    assert orders_of(promises, *wanted) == ("A TRI H", "A TYR H")
    assert orders_of(promises, *wanted, before=quiet) == wanted


def test_support_of_an_own_unit_that_now_holds_is_dropped() -> None:
    assert orders_of({"stays_out_of": ["ALB"]}, "A TRI - ALB", "A TYR S A TRI") == ("A TRI H", "A TYR S A TRI")
    assert orders_of({"stays_out_of": ["BOH"]}, "A TYR - BOH", "A TRI S A TYR - BOH") == ("A TRI H", "A TYR H")


@pytest.mark.parametrize("scenario_id", [each.id for each in shipped().values() if each.family == "alliance"])
def test_partners_of_shipped_alliances_keep_their_word(scenario_id: str) -> None:
    given = shipped()[scenario_id]
    partner = given.score.partner
    assert partner is not None
    other = given.others[partner]
    for seed in range(3):
        for moves in played(given, "hold", seed).record().moves:
            if other.until is None or moves.position.phase < other.until:
                assert not attacks(moves, partner, given.country), moves.position.phase


def test_a_loyal_bot_is_the_bot_itself_without_a_partner() -> None:
    bot = Says()
    assert loyal(bot, scenario()) is bot
    assert isinstance(loyal(bot, shipped()["italy-alliance-austria"]), Promising)


def test_a_behaviour_is_described_in_words() -> None:
    other = Other.model_validate(
        {"spares": ["ITALY"], "stays_out_of": ["TYR"], "supports": "returned", "into": ["BUL"], "until": "F1904M"}
    )
    assert described(other, "ITALY") == (
        "dumbbot; stays out of TYR; does not attack ITALY unless attacked; supports ITALY into BUL after support from "
        "it; keeps its word until F1904M"
    )
    assert described(Other(plays="hold"), "ITALY") == "hold"
