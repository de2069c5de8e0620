"""What is agreed in a negotiation, and when."""

from __future__ import annotations

import random

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, Letter, letters_for
from services.environments.diplomacy.press.negotiation import Negotiation
from services.environments.diplomacy.press.promises import Promise
from services.environments.diplomacy.press.proposals import SILENCE, Proposal, read
from services.environments.diplomacy.press.sayable import partners, sayable
from tests.unit.services.environments.diplomacy.press.games import movement_positions

POSITION = DiplomacyGame(1901).position


def said(sender: str, recipient: str, *lines: str, number: int = 0) -> Letter:
    proposals = tuple(proposal for line in lines if (proposal := read(line)) is not None)
    return Letter(sender, recipient, "\n".join(lines), POSITION.phase, number, proposals)


def negotiated(*rounds: list[Letter]) -> Negotiation:
    negotiation = Negotiation(POSITION)
    for each in rounds:
        negotiation.add_round(each)
    return negotiation


def promise(giver: str, partner: str, kind: str, about: str = "", *, is_asked_for: bool = False) -> Promise:
    return Promise(giver, partner, kind, about, "S1901M", is_asked_for=is_asked_for)  # type: ignore[arg-type]


def test_a_proposal_binds_both_once_it_is_accepted() -> None:
    proposed = [said("FRANCE", "ENGLAND", "PEACE")]
    negotiation = negotiated(proposed)
    assert not negotiation.promises
    assert negotiation.open("FRANCE", "ENGLAND") == (Proposal("PEACE"),)
    assert not negotiation.open("ENGLAND", "FRANCE")
    negotiation.add_round([said("ENGLAND", "FRANCE", "ACCEPT")])
    assert negotiation.promises == (promise("FRANCE", "ENGLAND", "PEACE"), promise("ENGLAND", "FRANCE", "PEACE"))
    assert not negotiation.open("FRANCE", "ENGLAND")


def test_an_answer_in_the_round_of_the_proposal_means_nothing() -> None:
    negotiation = negotiated([said("FRANCE", "ENGLAND", "PEACE"), said("ENGLAND", "FRANCE", "ACCEPT")])
    assert negotiation.promises == ()
    assert negotiation.open("FRANCE", "ENGLAND") == (Proposal("PEACE"),)


def test_a_promise_made_twice_keeps_its_place_and_another_order_of_the_unit_comes_last() -> None:
    first = [said("FRANCE", "GERMANY", "WILL A PAR - PIC"), said("FRANCE", "GERMANY", "WILL F BRE - ENG")]
    paris, brest = (promise("FRANCE", "GERMANY", "ORDER", about) for about in ("A PAR - PIC", "F BRE - ENG"))
    assert negotiated(first, [said("FRANCE", "GERMANY", "WILL A PAR - PIC")]).promises == (paris, brest)
    changed = promise("FRANCE", "GERMANY", "ORDER", "A PAR - GAS")
    assert negotiated(first, [said("FRANCE", "GERMANY", "WILL A PAR - GAS")]).promises == (brest, changed)


def test_the_same_proposal_by_both_is_agreed_in_any_round() -> None:
    both = [said("FRANCE", "ENGLAND", "DMZ ENG"), said("ENGLAND", "FRANCE", "DMZ ENG")]
    assert set(negotiated(both).promises) == {
        promise("FRANCE", "ENGLAND", "DMZ", "ENG"), promise("ENGLAND", "FRANCE", "DMZ", "ENG")
    }  # fmt: skip
    assert len(negotiated(both[:1], both[1:]).promises) == 2
    assert negotiated(both).open("FRANCE", "ENGLAND") == ()


def test_a_rejected_proposal_is_gone() -> None:
    negotiation = negotiated(
        [said("FRANCE", "ENGLAND", "PEACE", "DMZ ENG")],
        [said("ENGLAND", "FRANCE", "REJECT")],
        [said("ENGLAND", "FRANCE", "ACCEPT")],
    )
    assert negotiation.promises == ()


def test_an_answer_means_only_the_proposals_of_the_power_it_goes_to() -> None:
    negotiation = negotiated(
        [said("FRANCE", "ENGLAND", "PEACE"), said("GERMANY", "ENGLAND", "ALLY AGAINST FRANCE")],
        [said("ENGLAND", "GERMANY", "ACCEPT")],
    )
    assert set(negotiation.promises) == {
        promise("GERMANY", "ENGLAND", "ALLY", "FRANCE"), promise("ENGLAND", "GERMANY", "ALLY", "FRANCE")
    }  # fmt: skip
    assert negotiation.open("FRANCE", "ENGLAND") == (Proposal("PEACE"),)


def test_an_order_is_promised_by_saying_so_and_asked_for_only_by_its_answer() -> None:
    negotiation = negotiated([said("FRANCE", "GERMANY", "WILL A PAR - BUR", "ASK A MUN - RUH")])
    assert negotiation.promises == (promise("FRANCE", "GERMANY", "ORDER", "A PAR - BUR"),)
    negotiation.add_round([said("GERMANY", "FRANCE", "ACCEPT")])
    assert negotiation.promises[1:] == (promise("GERMANY", "FRANCE", "ORDER", "A MUN - RUH", is_asked_for=True),)


def test_the_last_order_of_a_unit_that_is_promised_to_a_power_counts() -> None:
    negotiation = negotiated(
        [said("FRANCE", "GERMANY", "WILL A PAR - BUR"), said("FRANCE", "ITALY", "WILL A PAR - BUR")]
    )
    negotiation.add_round([said("FRANCE", "GERMANY", "WILL A PAR - PIC"), said("ITALY", "FRANCE", "ASK A PAR - GAS")])
    negotiation.add_round([said("FRANCE", "ITALY", "ACCEPT")])
    assert negotiation.promises == (
        promise("FRANCE", "GERMANY", "ORDER", "A PAR - PIC"),
        promise("FRANCE", "ITALY", "ORDER", "A PAR - GAS", is_asked_for=True),
    )


def test_of_two_orders_of_a_unit_that_one_answer_accepts_the_last_counts() -> None:
    asked = [[said("GERMANY", "FRANCE", "ASK A PAR - BUR")], [said("GERMANY", "FRANCE", "ASK A PAR - PIC", number=1)]]
    negotiation = negotiated(*asked, [said("FRANCE", "GERMANY", "ACCEPT", number=2)])
    assert negotiation.promises == (promise("FRANCE", "GERMANY", "ORDER", "A PAR - PIC", is_asked_for=True),)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_order_that_is_announced_as_well_as_asked_for_is_asked_for(is_first: bool) -> None:
    announced = said("FRANCE", "GERMANY", "WILL A PAR - BUR")
    accepted = said("FRANCE", "GERMANY", "ACCEPT")
    rounds = [[announced], [accepted]] if is_first else [[accepted], [announced]]
    negotiation = negotiated([said("GERMANY", "FRANCE", "ASK A PAR - BUR")], *rounds)
    assert negotiation.promises == (promise("FRANCE", "GERMANY", "ORDER", "A PAR - BUR", is_asked_for=True),)


@pytest.mark.parametrize(
    "line", ["WILL A MUN - RUH", "WILL A PAR - MUN", "ASK A PAR - BUR", "DRAW", "ALLY AGAINST FRANCE"]
)
def test_what_cannot_be_done_is_never_promised(line: str) -> None:
    assert negotiated([said("FRANCE", "GERMANY", line)], [said("GERMANY", "FRANCE", "ACCEPT")]).promises == ()


def test_a_letter_to_everybody_is_read_by_all_and_binds_nobody() -> None:
    public = said("FRANCE", EVERYBODY, "PEACE", "WILL A PAR - BUR")
    private = said("FRANCE", "ITALY", "PEACE")
    negotiation = negotiated([public, private], [said("ENGLAND", "FRANCE", "ACCEPT")])
    assert negotiation.promises == ()
    letters = (public, private)
    assert letters_for(letters, "FRANCE") == letters
    assert letters_for(letters, "ITALY") == letters
    assert letters_for(letters, "ENGLAND") == (public,)


@pytest.mark.parametrize("seed", range(4))
def test_random_negotiations_bind_only_those_who_spoke_and_only_to_legal_orders(seed: int) -> None:
    rng = random.Random(seed)
    agreed = 0
    for position in movement_positions(seed, 4):
        negotiation, spoken = Negotiation(position), set[tuple[str, str]]()
        for number in range(3):
            letters = []
            for power in POWERS:
                for partner in partners(position, power):
                    answers = bool(negotiation.open(partner, power))
                    line = rng.choice(
                        ("PEACE", *sayable(position, power, partner, answers=answers)[: 4 if answers else 9])
                    )
                    if line == SILENCE:
                        continue
                    proposal = read(line)
                    assert proposal is not None
                    letters.append(Letter(power, partner, line, position.phase, number, (proposal,)))
                    spoken.add((power, partner))
            negotiation.add_round(letters)
        for each in negotiation.promises:
            assert (each.giver, each.partner) in spoken
            assert each.phase == position.phase
            if each.kind == "ORDER":
                assert each.about in position.legal[each.about[2:].partition(" ")[0]]
            else:
                mirrored = Promise(each.partner, each.giver, each.kind, each.about, each.phase)
                assert mirrored in negotiation.promises
        agreed += len(negotiation.promises)
    assert agreed > 20
