"""A line plays the same games as ``entente play``, ends as they do, and forks without changing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cluster.evaluation.play import play_out
from cluster.play_server.document import to_document
from cluster.play_server.line import advance, ending_text, fork
from cluster.play_server.seats import PERSON
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import TO_THE_END, Ending
from services.environments.diplomacy.position import POWERS
from tests.unit.cluster.play_server.lines import answers, line_of, play_on, seats


@pytest.mark.parametrize(("default", "seed"), [("dumbbot", 7), ("random", 3), ("greedy", 11)])
def test_a_watched_line_is_the_game_that_entente_play_plays(default: str, seed: int) -> None:
    game, _ = play_out(seats(default), Ending(1904), seed, ChatPlayers({}))
    expected = json.loads(game.saved())["phases"]
    line = play_on(line_of("1904", seed, default=default), 100)
    assert line.is_over
    assert [phase.name for phase in line.phases] == [phase["name"] for phase in expected]
    for phase, other in zip(line.phases, expected, strict=True):
        for table in ("units", "centers", "retreats", "influence"):
            assert phase.state[table] == other["state"][table], (phase.name, table)
        given = {power: tuple(sorted(own)) for power, own in (other["orders"] or {}).items() if own}
        assert dict(phase.orders) == given
        # The engine notes a unit that had nowhere to retreat again in the phase after, in which it is no more.
        there = {" ".join(order.split()[:2]) for own in given.values() for order in own}
        if phase.name.endswith("M"):
            there = {unit for units in phase.state["units"].values() for unit in units}
        results = {unit: tuple(words) for unit, words in other["results"].items() if any(words) and unit in there}
        assert dict(phase.results) == results


@pytest.mark.parametrize(("default", "seed"), [("hold", 1), ("random", 5)])
def test_quiet_years_end_a_line_as_they_end_a_game(default: str, seed: int) -> None:
    game, record = play_out(seats(default), TO_THE_END, seed, ChatPlayers({}))
    line = play_on(line_of("end", seed, default=default), 400)
    assert line.is_over
    assert len(line.phases) - 1 == game.outcome().phases
    assert {power: len(own) for power, own in line.present.centers.items()} == dict(game.outcome().centers)
    if default == "hold":
        assert ending_text(line) == "A draw of all survivors; RUSSIA has 4 centres.".replace("RUSSIA", "Russia")
    assert record.result.standing is not None


def test_a_fork_answers_as_before_and_leaves_its_line_alone() -> None:
    line = play_on(line_of("1903"), 100)
    before = json.dumps(to_document(line))
    again = fork(line, 3, 2, seed=line.seed)
    assert again.phases[:3] == line.phases[:3]
    assert (again.parent, again.present.name, again.is_over) == (1, line.phases[3].name, False)
    assert answers(again) == answers(replace(line, phases=line.phases[:4]))
    replayed = play_on(again, 100)
    assert [phase.orders for phase in replayed.phases] == [phase.orders for phase in line.phases]
    assert [phase.state for phase in replayed.phases] == [phase.state for phase in line.phases]
    assert json.dumps(to_document(line)) == before
    other = play_on(fork(line, 3, 3, seed=99), 1)
    assert other.phases[2].orders == line.phases[2].orders
    assert play_on(fork(line_of("1903", default="random"), 0, 3, seed=99), 1).phases[0].orders != (
        play_on(line_of("1903", default="random"), 1).phases[0].orders
    )


def test_a_fork_enters_again_what_a_person_had_ordered() -> None:
    line = line_of(FRANCE=PERSON)
    orders = ("A MAR S A PAR - BUR", "A PAR - BUR", "F BRE - MAO")
    line = play_on(line, 2, {"FRANCE": orders})
    assert line.phases[0].players["FRANCE"] == PERSON
    made = fork(line, 0, 2, seed=line.seed)
    assert dict(made.entered) == {"FRANCE": orders}
    taken = replace(line, seats={**line.seats, "FRANCE": "dumbbot"})
    assert dict(fork(taken, 0, 2, seed=1).entered) == {}


def test_who_decides_when_a_phase_goes_on() -> None:
    line = line_of(FRANCE=PERSON)
    assert (line.people, line.people_to_move, line.goes_on) == (("FRANCE",), ("FRANCE",), False)
    assert replace(line, submitted=True).goes_on
    watched = line_of()
    assert (watched.people, watched.goes_on) == ((), False)
    assert replace(watched, submitted=True).goes_on
    # In retreats and builds of others a person has nothing to decide, and the game goes on.
    while line.people_to_move or line.is_over:
        line = advance(line, answers(line))
    assert line.present.name[-1] in "RA"
    assert line.goes_on


def test_a_line_goes_on_after_its_ending_is_moved() -> None:
    line = play_on(line_of("1901"), 100)
    assert line.is_over
    assert ending_text(line).startswith("1901 is over: ")
    assert line.to_move == ()
    later = replace(line, until="1902")
    assert not later.is_over
    assert set(later.to_move) <= set(POWERS)
    assert play_on(later, 100).present.name == "S1903M"
