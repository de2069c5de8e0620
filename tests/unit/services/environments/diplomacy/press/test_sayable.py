"""All that may be said can be read again, and promises only what its giver could do."""

from __future__ import annotations

import pytest

from services.environments.diplomacy.alliances import acts
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.deeds import helps, is_against
from services.environments.diplomacy.press.proposals import MARKS, SILENCE, Proposal, read
from services.environments.diplomacy.press.sayable import partners, sayable
from services.environments.diplomacy.text.notation import split, words
from tests.unit.services.environments.diplomacy.press.games import movement_positions


@pytest.mark.parametrize("seed", range(3))
def test_every_line_is_read_as_a_proposal_of_the_same_text_whose_order_is_legal(seed: int) -> None:
    known = {*words(), *MARKS}
    for position in movement_positions(seed, 6):
        for power in POWERS:
            for partner in partners(position, power):
                lines = sayable(position, power, partner, answers=True)
                assert lines[:3] == (SILENCE, "ACCEPT", "REJECT")
                assert len(set(lines)) == len(lines)
                assert read(lines[0]) is None
                for line in lines[1:]:
                    proposal = read(line)
                    assert proposal is not None
                    assert proposal.text == line
                    assert known.issuperset(split(line)), line
                    if proposal.kind in ("WILL", "ASK"):
                        giver = power if proposal.kind == "WILL" else partner
                        assert proposal.about in position.legal[proposal.about[2:].partition(" ")[0]]
                        assert proposal.about[:2] + proposal.about[2:].partition(" ")[0] in position.units[giver]


def test_answers_are_offered_only_to_what_was_proposed() -> None:
    position = DiplomacyGame(1901).position
    assert not {"ACCEPT", "REJECT"} & set(sayable(position, "FRANCE", "ENGLAND", answers=False))


def test_the_opening_lets_france_and_england_speak_about_the_channel() -> None:
    lines = sayable(DiplomacyGame(1901).position, "FRANCE", "ENGLAND", answers=False)
    assert {"PEACE", "ALLY AGAINST GERMANY", "DMZ ENG", "WILL F BRE - MAO", "ASK F LON - NTH"} <= set(lines)
    assert "DMZ MUN" not in lines
    assert "ALLY AGAINST FRANCE" not in lines
    assert "DRAW" not in lines  # there are no votes in this game


def test_draws_can_be_proposed_where_powers_vote_on_them() -> None:
    game = DiplomacyGame(1901)
    game.draw_votes = True
    assert "DRAW" in sayable(game.position, "FRANCE", "ENGLAND", answers=False)


def test_partners_follow_after_the_power_without_the_eliminated_ones() -> None:
    state = DiplomacyGame(1901).state()
    state["units"]["ITALY"] = state["centers"]["ITALY"] = []
    position = DiplomacyGame.from_state(state, 1902).position
    assert partners(position, "GERMANY") == ("RUSSIA", "TURKEY", "AUSTRIA", "ENGLAND", "FRANCE")
    assert "ALLY AGAINST ITALY" not in sayable(position, "GERMANY", "RUSSIA", answers=False)


@pytest.mark.parametrize(
    "line",
    ["", "PASS", "PEACE ", "PEACE NOW", "ALLY GERMANY", "ALLY AGAINST", "ALLY AGAINST PRUSSIA", "DMZ", "DMZ STP/SC",
     "WILL", "WILL A PAR", "WILL A PAR - BUR\nPEACE", "ASK A PAR B", "will A PAR H", "ACCEPT PEACE", "\u202ePEACE"],
)  # fmt: skip
def test_other_lines_are_no_proposals(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_an_order_does_agrees_with_the_acts_that_alliances_are_inferred_from(seed: int) -> None:
    for position in movement_positions(100 + seed, 8):
        for power in POWERS:
            for place in position.orderable.get(power, ()):
                for order in position.legal[place]:
                    counted = acts(position, {power: (order,)})
                    for other in POWERS:
                        if other != power:
                            own = helps(order, position, power, other) - is_against(order, position, power, other)
                            assert own == counted.get((power, other), 0), (order, power, other)


def test_a_proposal_is_written_as_it_is_read() -> None:
    assert Proposal("ALLY", "GERMANY").text == "ALLY AGAINST GERMANY"
    assert read("WILL F STP/SC - BOT") == Proposal("WILL", "F STP/SC - BOT")
